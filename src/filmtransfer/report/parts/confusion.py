"""Who is taken for whom: a table with a typical photo of each class, and the photos behind the largest numbers.

With many classes the table keeps those with the most mistakes.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from ...formatting import times
from ..markup import Markup, breakable, join, name_of_class, paragraph, tag
from ..pictures import Sheet
from ..subject import Judged, Photos, Subject
from . import Section
from .cards import more, photo

WIDEST = 14  # classes in the table
PAIRS = 6
SHOWN = 4  # photos of a pair
SHADES = 4


def typical(photos: Photos, classes: int) -> list[int | None]:
    """Of each class the photo whose features point most nearly as the class's mean."""
    unit = F.normalize(photos.features.float(), dim=1)
    found: list[int | None] = []
    for c in range(classes):
        members = torch.nonzero(photos.labels == c).flatten()
        if len(members) == 0:
            found.append(None)
            continue
        near = unit[members] @ photos.features[members].float().mean(0)
        found.append(int(members[near.argmax()]))
    return found


def chosen(confusion: Tensor, most: int = WIDEST) -> list[int]:
    """The classes of the table, in their order: all, or those with the most mistakes (made or suffered)."""
    classes = len(confusion)
    if classes <= most:
        return [c for c in range(classes) if int(confusion[c].sum() + confusion[:, c].sum())]
    wrong = confusion.clone()
    wrong.fill_diagonal_(0)
    return sorted((wrong.sum(0) + wrong.sum(1)).argsort(descending=True, stable=True)[:most].tolist())


def pairs(judged: Judged) -> list[tuple[int, int, list[int]]]:
    """(true class, class said, rows) for all mistakes, the most frequent first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for row in torch.nonzero(~judged.right).flatten().tolist():
        groups.setdefault((int(judged.truths[row]), int(judged.said[row])), []).append(row)
    return [(*key, rows) for key, rows in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))]


def part(subject: Subject, sheet: Sheet) -> Section | None:
    judged = subject.judged
    if judged is None:
        return None
    confusion = judged.evaluation.confusion
    shown = chosen(confusion)
    pieces = [_table(subject, sheet, confusion, shown)]
    if len(shown) < len(subject.classes):
        wrong = int((~judged.right).sum())
        here = int(confusion[shown][:, shown].sum() - confusion.diagonal()[shown].sum())
        pieces.append(
            paragraph(
                f"Shown are the {len(shown)} classes of {len(subject.classes)} with the most mistakes; {here} of all {wrong} mistakes "
                "are between them.",
                class_="quiet",
            )
            if wrong
            else paragraph(
                f"Shown are {len(shown)} classes of {len(subject.classes)}; there was no mistake in any.",
                class_="quiet",
            )
        )
    often = pairs(judged)
    repeated = [pair for pair in often if len(pair[2]) > 1]
    if repeated:
        pieces += [
            tag("h3", "Most often confused"),
            tag("ul", *(_pair(subject, sheet, judged, pair) for pair in repeated[:PAIRS]), class_="pairs"),
            more(len(repeated) - PAIRS, "pairs that were confused more than once"),
        ]
    return Section("confusion", "Who is taken for whom", join(*pieces), subject.basis(judged))


def _table(subject: Subject, sheet: Sheet, confusion: Tensor, shown: list[int]) -> Markup:
    faces = typical(subject.photos, len(subject.classes))

    def face(c: int) -> Markup | None:
        i = faces[c]
        return None if i is None else photo(subject, sheet, i, "thumb tiny")

    elsewhere = len(shown) < len(subject.classes)
    heads = [
        tag(
            "th",
            face(c),
            tag("span", breakable(subject.classes[c]), class_="short", title=subject.classes[c]),
            scope="col",
        )
        for c in shown
    ]
    if elsewhere:
        heads.append(tag("th", tag("span", "others", class_="short"), scope="col"))
    rows = []
    for c in shown:
        total = int(confusion[c].sum())
        cells = [_cell(int(confusion[c, d]), total, c == d) for d in shown]
        if elsewhere:
            cells.append(_cell(total - int(confusion[c, shown].sum()), total, False))
        name = tag("span", breakable(subject.classes[c]), class_="short", title=subject.classes[c])
        rows.append(tag("tr", tag("th", tag("span", face(c), name, class_="who"), scope="row"), *cells))
    corner = tag("td", tag("span", "is ↓  called →", class_="quiet"))
    inside = tag("table", tag("thead", tag("tr", corner, *heads)), tag("tbody", *rows), class_="matrix")
    return tag(
        "div", inside, class_="wide", role="region", aria_label="Table of who is taken for whom", tabindex=0
    )


def _cell(number: int, total: int, right: bool) -> Markup:
    if number == 0:
        return tag("td", "·", class_="zero")
    shade = min(SHADES, 1 + int(SHADES * number / max(total, 1)))
    return tag("td", f"{number:,}", class_=f"{'good' if right else 'bad'}{shade}")


def _pair(subject: Subject, sheet: Sheet, judged: Judged, pair: tuple[int, int, list[int]]) -> Markup:
    truth, said, rows = pair
    faces = [photo(subject, sheet, int(judged.index[row]), "thumb small") for row in rows[:SHOWN]]
    return tag(
        "li",
        tag("span", *faces, class_="row"),
        tag(
            "span",
            name_of_class(subject.classes[truth]),
            " taken for ",
            name_of_class(subject.classes[said]),
            f", {times(len(rows))}",
        ),
    )
