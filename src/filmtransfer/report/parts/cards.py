"""A photo with what there is to say of it."""

from __future__ import annotations

from ...formatting import percent
from ..markup import Markup, join, name_of_class, tag
from ..pictures import Sheet
from ..subject import Judged, Subject


def card(picture: Markup, *lines: Markup | str, class_: str = "card") -> Markup:
    return tag("li", picture, tag("div", *lines, class_="says"), class_=class_)


def cards(items: list[Markup], class_: str = "cards") -> Markup:
    return tag("ul", *items, class_=class_)


def photo(subject: Subject, sheet: Sheet, i: int, class_: str = "thumb") -> Markup:
    """Whole where it is to be looked at, a square where it stands for a class or a neighbour."""
    whole = class_ in ("thumb", "thumb large")
    return sheet.show(subject.photos.thumbnails[i], subject.about(i), class_, whole=whole)


def file_name(name: str) -> Markup:
    return tag("span", tag("bdi", name), class_="file")


def verdict(subject: Subject, judged: Judged, row: int) -> Markup:
    """What was said of a photo, how surely, and what it is labelled."""
    said, truth = int(judged.said[row]), int(judged.truths[row])
    line = join(
        "called ", name_of_class(subject.classes[said]), " ", tag("b", percent(float(judged.sure[row]), 0))
    )
    if said == truth:
        second = int(judged.probabilities[row].topk(2).indices[1])
        other = percent(float(judged.probabilities[row, second]), 0)
        return join(
            tag("span", "✓ ", line, class_="right-line"),
            tag("span", "nearly ", name_of_class(subject.classes[second]), f" {other}", class_="quiet"),
        )
    own = percent(float(judged.own[row]), 0)
    return join(
        tag("span", "✗ ", line, class_="wrong-line"),
        tag("span", "labelled ", name_of_class(subject.classes[truth]), f" {own}", class_="quiet"),
    )


def more(hidden: int, what: str) -> Markup:
    """That something is left out, and how much."""
    return tag("p", f"{hidden:,} more {what} not shown.", class_="quiet") if hidden > 0 else Markup("")
