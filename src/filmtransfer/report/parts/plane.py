"""A map of the photos: near each other is alike to the classifier.

The axes are the two directions in which the classes' means differ most (the principal axes of the means); with two
classes the second axis is the direction in which photos differ most beside that. A few photos are shown, the others
are signs: a colour and a shape for each class.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ...formatting import percent
from ..drawing import COLOURS, SHAPES, Scale, figure, mark
from ..markup import Markup, join, paragraph, tag
from ..pictures import Sheet
from ..subject import Subject
from . import Section

WIDTH, HEIGHT, EDGE = 480, 400, 24
PICTURE = 44  # units a side
PICTURES = 40
SIGNS = 12  # classes with a sign of their own, where there are more than COLOURS × 2 …
DOTS = 3000


@dataclass(frozen=True)
class Axes:
    """Two directions of feature space and where they begin; ``share`` of the classes' differences lies in them."""

    centre: Tensor  # (D)
    directions: Tensor  # (2, D)
    share: float

    def __call__(self, features: Tensor) -> Tensor:
        return (_unit(features) - self.centre) @ self.directions.T


def axes(features: Tensor, labels: Tensor) -> Axes:
    z = _unit(features)
    present = labels.unique()
    means = torch.stack([z[labels == c].mean(0) for c in present])
    centre = means.mean(0)
    _, sizes, rows = torch.linalg.svd(means - centre, full_matrices=False)
    total = float((sizes**2).sum())
    share = float((sizes[:2] ** 2).sum()) / total if total else 1.0
    found = rows[:2] if len(present) > 2 else rows[:1]
    if len(found) < 2:
        rest = z - centre
        rest = rest - rest @ found.T @ found
        found = torch.cat([found, torch.linalg.svd(rest, full_matrices=False)[2][:1]])
    signs = torch.where(
        found.gather(1, found.abs().argmax(1, keepdim=True)) < 0, -1.0, 1.0
    )  # one of two mirror images
    return Axes(centre, found * signs, share)


def part(subject: Subject, sheet: Sheet) -> Section | None:
    photos, learned = subject.photos, subject.learned
    known = subject.kind == "test" and learned is not None
    base = (
        (learned.features, learned.labels)
        if known and learned is not None
        else (photos.features, photos.labels)
    )
    if len(base[0]) < 3:
        return None
    found = axes(*base)
    points, kinds = found(photos.features), photos.labels
    ground = found(base[0])[:DOTS] if known else torch.empty(0, 2)
    signed = signs(subject)
    everything = torch.cat([points, ground])
    low, high = everything.min(0).values.tolist(), everything.max(0).values.tolist()
    x = Scale(low[0], high[0], EDGE, WIDTH - EDGE)
    y = Scale(low[1], high[1], HEIGHT - EDGE, EDGE)
    pieces = [
        mark(signed.get(c, 0), x(a), y(b), 3.2, "pale" if c in signed else "pale other")
        for (a, b), c in zip(ground.tolist(), base[1].tolist(), strict=False)
    ]
    shown = spread(torch.tensor([[x(a), y(b)] for a, b in points.tolist()]), PICTURE * 0.92, _order(subject))
    wrong = _wrong(subject)
    for i in _thinned(len(points)):
        a, b = points[i].tolist()
        kind = signed.get(int(kinds[i]), 0)
        other = "" if int(kinds[i]) in signed else " other"
        if i in shown and (number := sheet.place(photos.thumbnails[i])) is not None:
            continue
        pieces.append(mark(kind, x(a), y(b), 5.0, ("missed" if i in wrong else "") + other))
    for i in shown:
        number = sheet.place(photos.thumbnails[i])
        if number is not None:
            c = int(kinds[i])
            pieces.append(
                _picture(
                    sheet,
                    number,
                    x(float(points[i, 0])),
                    y(float(points[i, 1])),
                    signed.get(c, 0),
                    c in signed,
                    i in wrong,
                )
            )
    label = f"A map of {len(photos)} photos of {len(subject.classes)} classes: photos that look alike to the classifier lie near each other."
    drawn = figure(
        WIDTH,
        HEIGHT,
        label,
        tag("rect", x=1, y=1, width=WIDTH - 2, height=HEIGHT - 2, rx=8, class_="ground"),
        *pieces,
        class_="figure map",
    )
    return Section(
        "plane",
        "A map of your photos" if subject.kind == "train" else "A map of the test photos",
        join(_intro(subject, found, known), drawn, _legend(subject, signed)),
        f"all {len(photos):,} photos",
    )


def signs(subject: Subject) -> dict[int, int]:
    """Which classes have a sign, and which: all while signs last, else those with the most mistakes."""
    classes = len(subject.classes)
    if classes <= 2 * COLOURS:
        return {c: c for c in range(classes)}
    trouble = torch.zeros(classes)
    if subject.judged is not None:
        trouble.index_add_(0, subject.judged.truths, 1 - subject.judged.own.float())
    chosen = sorted(trouble.argsort(descending=True, stable=True)[: min(SIGNS, COLOURS * SHAPES)].tolist())
    return {c: kind for kind, c in enumerate(chosen)}


def spread(points: Tensor, apart: float, order: list[int], most: int = PICTURES) -> list[int]:
    """Which points can be shown as pictures that do not cover each other, in the order in which they are wanted."""
    chosen: list[int] = []
    for i in order:
        if len(chosen) >= most:
            break
        if not chosen or float((points[chosen] - points[i]).abs().max(1).values.min()) >= apart:
            chosen.append(i)
    return chosen


def _order(subject: Subject) -> list[int]:
    """Photos that were mistaken first, then at regular steps through the rest."""
    wrong, count = _wrong(subject), len(subject.photos)
    step = max(1, count // 200)
    rest = [i for s in range(min(step, 3)) for i in range(s, count, step) if i not in wrong]
    return [*sorted(wrong)[:PICTURES], *rest]


def _wrong(subject: Subject) -> set[int]:
    judged = subject.judged
    return set() if judged is None else set(judged.index[~judged.right].tolist())


def _thinned(count: int) -> list[int]:
    return list(range(0, count, -(-count // DOTS)))


def _picture(sheet: Sheet, number: int, x: float, y: float, kind: int, signed: bool, wrong: bool) -> Markup:
    """A photo with its class's sign at the corner, and a ring if it was mistaken."""
    half = PICTURE / 2
    x = min(max(x, half + 4), WIDTH - half - 4)
    y = min(max(y, half + 4), HEIGHT - half - 4)
    return join(
        sheet.draw(number, x - half, y - half, PICTURE),
        tag("rect", x=x - half, y=y - half, width=PICTURE, height=PICTURE, class_="ring") if wrong else None,
        mark(kind, x - half + 5, y - half + 5, 6.0, "on" if signed else "on other"),
    )


def _intro(subject: Subject, found: Axes, known: bool) -> Markup:
    ours = (
        "Pale signs are the photos it learned from; strong ones and pictures are the test photos. "
        if known
        else ""
    )
    two = f"A flat map keeps {percent(found.share, 0)} of what tells the classes apart; what overlaps here can still be told apart in the other directions."
    tidy = (
        " The map was drawn from these very photos, which makes classes look tidier than they are."
        if not known
        else ""
    )
    wrong = " A red ring marks a mistake." if _wrong(subject) else ""
    return paragraph(
        f"Photos that look alike to the classifier lie near each other. {ours}{two}{tidy}{wrong}"
    )


def _legend(subject: Subject, signed: dict[int, int]) -> Markup:
    items = [
        tag("li", figure(16, 16, "", mark(kind, 8, 8, 5.0), class_="sign"), tag("bdi", subject.classes[c]))
        for c, kind in signed.items()
    ]
    if len(signed) < len(subject.classes):
        items.append(
            tag(
                "li",
                figure(16, 16, "", mark(0, 8, 8, 5.0, "other"), class_="sign"),
                f"the other {len(subject.classes) - len(signed)} classes",
            )
        )
    return tag("ul", *items, class_="legend")


def _unit(features: Tensor) -> Tensor:
    return F.normalize(features.double(), dim=1)
