"""``--set name=value``: values are parsed as TOML, or taken as plain strings where that fails."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from ..errors import UsageError


def read_settings(pairs: Sequence[str] | None, example: str) -> dict[str, Any]:
    """Return the settings given as name=value; ``example`` appears in the error message."""
    settings: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign:
            raise UsageError(f"--set {pair} has no value.", f"As in --set {example}.")
        try:
            settings[name.strip()] = tomllib.loads(f"x = {value}")["x"]
        except tomllib.TOMLDecodeError:
            settings[name.strip()] = value
    return settings
