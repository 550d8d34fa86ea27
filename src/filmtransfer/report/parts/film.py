"""How far fine-tuning moved the backbone: FiLM's scales and shifts by layer (paper: FiLM Layer Parameter Variation)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...formatting import percent
from ..drawing import Scale, figure, left, line, nice, words
from ..markup import Markup, join, paragraph, tag
from ..subject import Subject
from . import Section

HEIGHT, TALL = 190, 130
ENDS = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Box:
    """The 5%, 25%, 50%, 75% and 95% points of some numbers."""

    points: tuple[float, ...]

    @classmethod
    def of(cls, values: Tensor) -> Box:
        return cls(tuple(torch.quantile(values.double(), torch.tensor(ENDS, dtype=torch.float64)).tolist()))


def part(subject: Subject) -> Section:
    title = "What fine-tuning changed"
    numbers, sites = subject.update.film, subject.sites
    learned = sum(t.numel() for t in subject.update.body.values())
    share = subject.update.results.get("share", 1.0)
    if not subject.moved:
        why = (
            "Fine-tuning was tried, but held-out photos spoke against it, so the backbone is as it came."
            if subject.update.results.get("steps")
            else "Nothing: the backbone is as it came, and only the last layer was built from the photos."
        )
        return Section("film", title, paragraph(why))
    if not sites:
        body = subject.update.learns()
        what = (
            f"{learned:,} numbers of {body.adapter}"
            if body.train == "adapter"
            else f"all {learned:,} numbers of the backbone"
        )
        return Section(
            "film",
            title,
            paragraph(
                f"Fine-tuning learned {what}. They have no scale and shift by layer that could be drawn."
            ),
        )
    scales = torch.cat([(numbers[f"{s}.gamma"] - 1).abs().flatten() for s in sites])
    kept = {0.5: " Half of the way it went is kept, which is safest with few photos."}.get(share, "")
    intro = paragraph(
        f"Fine-tuning turned {learned:,} dials inside the backbone, a scale and a shift for each channel of {len(sites)} layers. "
        f"A scale moved by {percent(float(scales.median()))} in the middle of all; where the boxes are tall, your photos differ most "
        f"from what the backbone knew.{kept}"
    )
    boxes = [
        draw("scale: |γ − 1|", [Box.of((numbers[f"{s}.gamma"] - 1).abs()) for s in sites], "k0"),
        draw("shift: |β|", [Box.of(numbers[f"{s}.beta"].abs()) for s in sites], "k1"),
    ]
    note = paragraph(
        "From left to right the layers go from the image to the answer. Boxes hold the middle half of a layer’s numbers, lines 5% to 95%.",
        class_="quiet",
    )
    wide = tag("div", *boxes, class_="wide plain", role="region", aria_label="FiLM by layer", tabindex=0)
    return Section("film", title, join(intro, wide, note), "the numbers in the update file")


def draw(title: str, boxes: list[Box], colour: str) -> Markup:
    width = max(640, 70 + 14 * len(boxes))
    top, ticks = nice(max(max(box.points) for box in boxes))
    y = Scale(0, top, 30 + TALL, 30)
    step = (width - 78) / len(boxes)
    pieces = [left(y, 64, width - 8, ticks, title)]
    for i, box in enumerate(boxes):
        low, lower, middle, upper, high = (y(p) for p in box.points)
        x, half = 68 + (i + 0.5) * step, min(9.0, 0.34 * step)
        pieces += [
            line(x, low, x, high, f"stroke {colour}"),
            tag(
                "rect",
                x=x - half,
                y=upper,
                width=2 * half,
                height=max(lower - upper, 0.5),
                class_=f"box {colour}",
            ),
            line(x - half, middle, x + half, middle, "median"),
        ]
        if len(boxes) <= 24 or i % 5 == 4:
            pieces.append(words(x, 30 + TALL + 18, str(i + 1), anchor="middle", class_="tick small"))
    told = ", ".join(f"{box.points[2]:.3f}" for box in boxes)
    return figure(width, HEIGHT, f"{title} by layer; the medians are {told}", *pieces, class_="figure long")
