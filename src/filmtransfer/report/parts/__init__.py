"""The parts of a report, one a file: each looks at the subject and says what it found, or that it cannot."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..markup import Markup


@dataclass(frozen=True)
class Section:
    """One part as the page shows it."""

    name: str  # of its place in the page
    title: str
    body: Markup
    basis: str = ""  # what its numbers were measured on
    advice: list[Markup] = field(default_factory=list)  # what to do about it, for the top of the page
