"""The types of a row of the results file, and the grouping of rows or other items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

RunSettings = Mapping[str, Any]  # the settings that define a run, by their keys in a recipe
RunResult = Mapping[str, Any]  # what a run measured, by name
Row = Mapping[str, Any]  # "version", "key", "settings", and either "result" or "error"

T = TypeVar("T")
K = TypeVar("K")


def quantity(number: object, noun: str) -> str:
    """Return a number in digits, or another value of a setting such as 'all', with its noun: '1 shot', '5 shots'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def group_by(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group items by their key, in the order in which the keys occur."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
