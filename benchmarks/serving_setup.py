"""What all parts of serving.py are given, and how they write times."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from serving_users import Users


@dataclass(frozen=True)
class Setup:
    """The stored users, the photos of their requests, and how long to measure."""

    users: Users
    small: Users  # whose updates are stored without support features
    photos: list[bytes]
    folded: Path  # an exported graph of one user, with γ and β in its weights
    requests: int
    rounds: int
    seconds: float
    before: Path | None = None  # a checkout of the version before


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return percentiles in ms."""
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {f"p{p}": round(1000 * cuts[p - 1], 2) for p in (50, 90, 99)}


def milliseconds(seconds: Sequence[float]) -> dict[str, float]:
    """Return the best and the median in ms."""
    return {
        "best": round(1000 * min(seconds), 2),
        "median": round(1000 * statistics.median(seconds), 2),
    }
