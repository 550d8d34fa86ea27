"""Classifiers that several commands are tested on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from filmtransfer.cli import main
from tests.cli.running import SMALL
from tests.conftest import picture


def save_photos(folder: Path) -> None:
    """Save four photos of each of three classes."""
    for c, name in enumerate(("disc", "bars", "plain")):
        (folder / name).mkdir(parents=True)
        for i in range(4):
            picture(c, 10 * c + i).save(folder / name / f"{i}.png")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a folder of photos and an update trained on them with two steps."""
    root = tmp_path_factory.mktemp("photos here")
    save_photos(root / "photos")
    out = root / "update.safetensors"
    assert main(["train", str(root / "photos"), "--out", str(out), "--steps", "2", *SMALL]) == 0
    return root / "photos", out


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with photos, one of them mislabelled, an update a.safetensors with its report, and other photos."""
    root = tmp_path_factory.mktemp("report")
    save_photos(root / "photos")
    picture(1, 99).save(root / "photos" / "disc" / "wrong.png")
    (root / "other").mkdir()
    for i in range(3):
        picture(0, 500 + i).rotate(45).resize((90, 30)).save(root / "other" / f"{i}.png")
    out = ["--out", str(root / "a.safetensors"), "--steps", "0"]
    assert main(["train", str(root / "photos"), *out, *SMALL]) == 0
    return root


@pytest.fixture(scope="session")
def editable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with updates kept.safetensors and bare.safetensors, with and without statistics."""
    root = tmp_path_factory.mktemp("edit")
    save_photos(root / "photos")
    (root / "more").mkdir()
    for i in range(3):
        picture(1, 900 + i).save(root / "more" / f"{i}.png")
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / "noise.png")
    for name, options in (("kept", []), ("bare", ["--compact"])):
        out = ["--out", str(root / f"{name}.safetensors"), *options]
        assert main(["train", str(root / "photos"), "--steps", "0", "--image-size", "48", *out]) == 0
    return root


@pytest.fixture
def kept(editable: Path, tmp_path: Path) -> Path:
    """Return a copy of the update with statistics."""
    copy = tmp_path / "kept.safetensors"
    copy.write_bytes((editable / "kept.safetensors").read_bytes())
    return copy
