"""What fine-tuning changed: FiLM scales and shifts by layer (paper: FiLM Layer Parameter Variation)."""

from __future__ import annotations

import numpy as np

from ...formatting import percent
from ...training.finetune.outcome import DEFAULT_ALPHA, INTERPOLATION
from ..drawing import Scale, axis_ticks, figure, line, svg_text, vertical_axis
from ..markup import Markup, join, paragraph, scrollable, tag
from ..report_data import ReportData
from . import Section

HEIGHT, TALL = 190, 130
FEW_LAYERS = 20  # that fit on a phone without scrolling
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def section(data: ReportData) -> Section:
    """Return the section on the trained parameters of the backbone."""
    anchor, title = "film", "What fine-tuning changed"
    if not data.fine_tuned or not data.sites:
        return Section(anchor, title, paragraph(_without_film(data)))
    film, sites = data.update.film, data.sites
    scales = {site: np.abs(film[f"{site}.gamma"] - 1).ravel() for site in sites}
    shifts = {site: np.abs(film[f"{site}.beta"]).ravel() for site in sites}
    median = float(np.quantile(np.concatenate(list(scales.values())), 0.5, method="lower"))
    half = data.update.results.get("share") == DEFAULT_ALPHA
    kept = f" {INTERPOLATION[DEFAULT_ALPHA]}" if half else ""
    intro = paragraph(
        f"Fine-tuning trained {_trained(data):,} FiLM parameters inside the backbone: a scale γ and a shift β for each channel "
        f"of {len(sites)} layers. The median scale changed by {percent(median)}; where the boxes are tall, your photos "
        f"differ most from those the backbone was trained on.{kept}"
    )
    note = paragraph(
        "From left to right the layers go from the image to the prediction. A box contains the middle half of a layer’s "
        "parameters, its lines go from 5% to 95%.",
        class_="quiet",
    )
    plots = [draw("scale: |γ − 1|", scales, "k0"), draw("shift: |β|", shifts, "k1")]
    wide = scrollable("FiLM by layer", *plots, class_="wide plain")
    return Section(anchor, title, join(intro, wide, note), "the parameters in the update file")


def _trained(data: ReportData) -> int:
    return sum(t.size for t in data.update.parameters.values())


def _without_film(data: ReportData) -> str:
    if not data.fine_tuned:
        return (
            "Fine-tuning was tried, but it made predictions for held-out photos worse, so the backbone is unchanged."
            if data.update.results.get("steps")
            else "Nothing: the backbone is unchanged, and only the last layer was built from the photos."
        )
    body = data.update.body()
    what = (
        f"{_trained(data):,} parameters of {body.adapter}"
        if body.train == "adapter"
        else f"all {_trained(data):,} parameters of the backbone"
    )
    return (
        f"Fine-tuning trained {what}. They are not scales and shifts by layer, so there is no figure of them."
    )


def draw(title: str, values: dict[str, np.ndarray], colour: str) -> Markup:
    """Draw a box plot of each layer's values."""
    boxes = [np.quantile(layer.astype(np.float64), QUANTILES).tolist() for layer in values.values()]
    few = len(boxes) <= FEW_LAYERS
    width = 480 if few else max(640, 70 + 14 * len(boxes))
    top, ticks = axis_ticks(max(map(max, boxes)))
    y = Scale(0, top, 30 + TALL, 30)
    step = (width - 78) / len(boxes)
    pieces = [vertical_axis(y, 64, width - 8, ticks, title)]
    for i, box in enumerate(boxes):
        low, lower, middle, upper, high = map(y, box)
        x, half = 68 + (i + 0.5) * step, min(9.0, 0.34 * step)
        tall = max(lower - upper, 0.5)
        pieces += [
            line(x, low, x, high, f"stroke {colour}"),
            tag("rect", x=x - half, y=upper, width=2 * half, height=tall, class_=f"box {colour}"),
            line(x - half, middle, x + half, middle, "median"),
        ]
        if len(boxes) <= 24 or i % 5 == 4:
            pieces.append(svg_text(x, 30 + TALL + 18, str(i + 1), anchor="middle", class_="tick small"))
    medians = ", ".join(f"{box[2]:.3f}" for box in boxes)
    size = "figure" if few else "figure long"
    return figure(width, HEIGHT, f"{title} by layer; the medians are {medians}", *pieces, class_=size)
