"""Run ``fit`` in this process, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from filmtransfer.cli import main

SMALL = ["--image-size", "64", "--train-size", "48"]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Return the exit code, stdout and stderr."""
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Return the JSON document of a command that succeeds."""
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    result: dict[str, Any] = json.loads(out)
    return result


def width(file: str | Path) -> int:
    """Return the width of an image file."""
    with Image.open(file) as image:
        return image.width
