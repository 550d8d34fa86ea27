"""``--set name=value``: values as TOML, and as plain words where that fails."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from ..errors import UsageError


def read_settings(pairs: Sequence[str] | None, example: str) -> dict[str, Any]:
    """What was set by hand; ``example`` is for the error."""
    chosen: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign:
            raise UsageError(f"--set {pair} has no value.", f"As in --set {example}.")
        try:
            chosen[name.strip()] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            chosen[name.strip()] = value
    return chosen
