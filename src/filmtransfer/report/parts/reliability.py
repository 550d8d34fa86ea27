"""Can the percentages be believed? How often answers were right, by how sure they were."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ...formatting import percent
from ...training.assess.assessment import calibration_error
from ...training.assess.evaluation import wilson
from ..drawing import Scale, bottom, figure, left, line, percents, words
from ..markup import Markup, join, paragraph, tag
from ..subject import Judged, Subject
from . import Section

SEEN = 0.1  # in log T
FEW = 100  # images, below which there are half as many bins
WIDTH, HEIGHT, SIDE = 480, 470, 330


@dataclass(frozen=True)
class Bin:
    """Answers that were about as sure as each other."""

    sure: float  # on average
    right: int
    total: int

    @property
    def share(self) -> float:
        return self.right / self.total

    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.total)


def bins(probabilities: Tensor, truths: Tensor, number: int) -> list[Bin | None]:
    """Of equal width from 0 to 1; none where there was no answer."""
    sure, said = probabilities.max(1)
    place = (sure * number).long().clamp(max=number - 1)
    found: list[Bin | None] = []
    for b in range(number):
        rows = place == b
        total = int(rows.sum())
        found.append(
            Bin(float(sure[rows].mean()), int((said == truths)[rows].sum()), total) if total else None
        )
    return found


def corrected(judged: Judged) -> bool:
    """Whether the temperature makes a difference that one can see."""
    return abs(math.log(judged.temperature)) > SEEN


def part(subject: Subject) -> Section | None:
    judged = subject.counted
    if judged is None:
        return None
    number = 5 if len(judged) < FEW else 10
    after = bins(judged.probabilities, judged.truths, number)
    before = bins(judged.untempered, judged.truths, number)
    tempered = corrected(judged)
    note = paragraph(
        "On the dashed line the percentages mean what they say. Vertical bars show how much chance alone can move a dot (95%); "
        "the larger a dot, the more photos, which the grey bars count."
        + (" Hollow dots: before the percentages were corrected." if tempered else ""),
        class_="quiet",
    )
    picture = draw(after, before if tempered else None, len(judged))
    return Section(
        "reliability",
        "Can the percentages be believed?",
        join(paragraph(_verdict(subject, judged)), picture, note),
        subject.basis(judged),
    )


def _verdict(subject: Subject, judged: Judged) -> str:
    right, sure = float(judged.right.double().mean()), float(judged.sure.mean())
    gap = sure - right
    low, high = wilson(int(judged.right.sum()), len(judged))
    said = f"On average the answers were {percent(sure, 0)} sure, and {percent(right, 0)} were right"
    if low <= sure <= high:
        verdict = ": they may be taken at their word, as far as so many photos can tell."
    elif gap > 0:
        verdict = ": it promises too much."
    else:
        verdict = ": it is better than it says."
    if not corrected(judged):
        return said + verdict
    change = "less" if judged.temperature > 1 else "more"
    how = f" Its own answers were made {change} sure by a temperature of {judged.temperature:.2f}"
    told = ", chosen on these photos" if subject.kind == "train" else ", chosen at training"
    if len(judged) < FEW:
        return f"{said}{verdict}{how}{told}."
    errors = [
        percent(calibration_error(p, judged.truths), 0) for p in (judged.untempered, judged.probabilities)
    ]
    return f"{said}{verdict}{how}{told}: the mean gap between sure and right (ECE) was {errors[0]} before and is {errors[1]} after."


def draw(after: list[Bin | None], before: list[Bin | None] | None, images: int) -> Markup:
    x, y = Scale(0, 1, 70, 70 + SIDE), Scale(0, 1, 36 + SIDE, 36)
    pieces = [
        left(y, 62, 70 + SIDE, percents(), "answers that were right"),
        line(x(0), y(0), x(1), y(1), "ideal"),
    ]
    if before is not None:
        pieces += [tag("circle", cx=x(b.sure), cy=y(b.share), r=5.0, class_="hollow") for b in before if b]
    most = max(b.total for b in after if b)
    width = SIDE / len(after)
    for i, b in enumerate(after):
        if b is None:
            continue
        low, high = b.interval()
        tall = 38 * b.total / most
        pieces += [
            tag(
                "rect",
                x=x(i / len(after)) + 2,
                y=36 + SIDE + 44 - tall,
                width=width - 4,
                height=tall,
                class_="count",
            ),
            words(
                x((i + 0.5) / len(after)),
                36 + SIDE + 58,
                f"{b.total:,}",
                anchor="middle",
                class_="tick small",
            ),
            line(x(b.sure), y(low), x(b.sure), y(high), "whisker"),
            tag("circle", cx=x(b.sure), cy=y(b.share), r=4.5 + 4.5 * math.sqrt(b.total / most), class_="dot"),
        ]
    told = ", ".join(f"{percent(b.sure, 0)} sure: {b.right} of {b.total} right" for b in after if b)
    return figure(
        WIDTH,
        HEIGHT,
        f"How often answers were right, by how sure they were, of {images} photos. {told}",
        *pieces,
        bottom(x, 36 + SIDE + 62, percents(), "how sure the answer was"),
        class_="figure square",
    )
