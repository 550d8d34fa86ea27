"""The sections of a report, one a file: each is made from the report's data, or omitted where they do not suffice."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..markup import Markup


@dataclass(frozen=True)
class Section:
    """One section of the page."""

    anchor: str  # its id in the page
    title: str
    body: Markup
    basis: str = ""  # what its numbers were measured on
    advice: list[Markup] = field(default_factory=list)  # what to do about it, shown at the top of the page
    term: str = ""  # the technical term, shown beside the title
