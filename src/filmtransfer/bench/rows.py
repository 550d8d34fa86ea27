"""The types of a row of the results file, and the grouping of rows or other items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

RunSettings = Mapping[str, Any]  # the settings that define a run, by their keys in a recipe
RunResult = Mapping[str, Any]  # what a run measured, by name
Row = Mapping[str, Any]  # "version", "key", "settings", and either "result" or "error"

T = TypeVar("T")
K = TypeVar("K")


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by their key, in the order in which the keys occur."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
