"""The types of a row of the results file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RunSettings = Mapping[str, Any]  # the settings that define a run, by their keys in a recipe
RunResult = Mapping[str, Any]  # what a run measured, by name
Row = Mapping[str, Any]  # "version", "key", "settings", and either "result" or "error"
