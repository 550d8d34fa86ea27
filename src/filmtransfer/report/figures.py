"""Figures as PNG: FiLM parameters by layer (paper: FiLM Layer Parameter Variation), and a sheet of predictions."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ..data.pixels import ImageSource
from ..errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, CORRECT, WRONG, PAPER, MUTED, GRID = "#1b1f24", "#1a7f5a", "#c0392b", "#ffffff", "#6b7280", "#e5e7eb"
SHEET = "#f6f7f5"
CELL, GAP, CAPTION, TITLE, MARGIN = 130, 14, 40, 56, 24  # pixels of a sheet of predictions
FILM_COLOURS = ("#2f6f9f", "#b5651d")  # of γ and β


def load_pyplot() -> ModuleType:
    """Import pyplot with a backend that needs no display."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError("A figure", "report") from None
    return pyplot


def style_axis(axis: Axes) -> None:
    """Draw a horizontal grid behind the data, and no upper and right border."""
    axis.grid(axis="y", color=GRID)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def film_by_layer(parameters: Mapping[str, np.ndarray], sites: Sequence[str], title: str) -> bytes:
    """Return box plots of |γ−1| and |β| for each FiLM layer, in the order of ``sites``."""
    pyplot = load_pyplot()
    changes = {
        "|γ − 1|": [np.abs(parameters[f"{s}.gamma"] - 1) for s in sites],
        "|β|": [np.abs(parameters[f"{s}.beta"]) for s in sites],
    }
    width = max(7.0, 0.34 * len(sites) + 1.5)
    figure, axes = pyplot.subplots(2, 1, figsize=(width, 6.4), sharex=True, layout="constrained")
    for axis, (label, boxes), colour in zip(axes, changes.items(), FILM_COLOURS, strict=True):
        plot = axis.boxplot(
            boxes,
            whis=(5, 95),
            widths=0.62,
            patch_artist=True,
            showfliers=False,
            medianprops={"color": INK, "linewidth": 1.4},
            whiskerprops={"color": colour},
            capprops={"color": colour},
        )
        for box in plot["boxes"]:
            box.set(facecolor=colour, alpha=0.45, edgecolor=colour)
        axis.set_ylabel(label, fontsize=12)
        axis.set_ylim(bottom=0)
        style_axis(axis)
    axes[0].set_title(title.replace("$", r"\$"), fontsize=12, loc="left")
    axes[1].set_xticks(range(1, len(sites) + 1), sites, rotation=60, ha="right", fontsize=8)
    axes[1].set_xlabel("FiLM layer, from the image to the head (box: quartiles, whiskers: 5–95%)")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130)
    pyplot.close(figure)
    return buffer.getvalue()


def prediction_sheet(
    images: Sequence[ImageSource],
    labels: Sequence[str],
    predictions: Sequence[str],
    confidences: Sequence[float],
    title: str,
    columns: int = 12,
) -> bytes:
    """Return a sheet of images with their predictions: a tick for correct ones, a cross and the label for wrong ones."""
    rows = -(-len(images) // columns)
    size = 2 * MARGIN + columns * CELL, MARGIN + TITLE + rows * (CELL + CAPTION)
    sheet = Image.new("RGB", size, SHEET)
    draw = ImageDraw.Draw(sheet)
    draw.text((MARGIN + GAP // 2, MARGIN), title, fill=INK, font=ImageFont.load_default(26))
    for i, (image, label, predicted, confidence) in enumerate(
        zip(images, labels, predictions, confidences, strict=True)
    ):
        corner = MARGIN + i % columns * CELL + GAP // 2, MARGIN + TITLE + i // columns * (CELL + CAPTION)
        _draw_card(sheet, draw, corner, np.asarray(image), label == predicted)
        _draw_caption(draw, (corner[0], corner[1] + CELL - GAP), label, predicted, confidence)
    buffer = io.BytesIO()
    sheet.save(buffer, format="PNG")
    return buffer.getvalue()


def _draw_card(
    sheet: Image.Image, draw: ImageDraw.ImageDraw, corner: tuple[int, int], image: np.ndarray, correct: bool
) -> None:
    """Draw an image on a white card, whose border is red if the prediction is wrong."""
    side = CELL - GAP
    box = (*corner, corner[0] + side, corner[1] + side)
    draw.rounded_rectangle(box, 10, fill=PAPER, outline=GRID if correct else WRONG, width=2 if correct else 3)
    inside = side - 12
    picture = Image.fromarray(image).convert("RGB").resize((inside, inside), Image.Resampling.LANCZOS)
    sheet.paste(picture, (corner[0] + 6, corner[1] + 6))


def _draw_caption(
    draw: ImageDraw.ImageDraw, corner: tuple[int, int], label: str, predicted: str, confidence: float
) -> None:
    """Write the prediction below its card and, if it is wrong, the label; colour is not the only difference."""
    x, y = corner
    correct = label == predicted
    _draw_mark(draw, x + 3, y + 10, correct, CORRECT if correct else WRONG)
    words = ImageFont.load_default(15)
    draw.text((x + 20, y + 5), predicted, fill=INK if correct else WRONG, font=words)
    after = x + 20 + draw.textlength(f"{predicted} ", words)
    draw.text((after, y + 6), f"{confidence:.0%}", fill=MUTED, font=ImageFont.load_default(14))
    if not correct:
        draw.text((x + 20, y + 23), f"is {label}", fill=MUTED, font=ImageFont.load_default(14))


def _draw_mark(draw: ImageDraw.ImageDraw, x: int, y: int, correct: bool, colour: str) -> None:
    """Draw a tick or a cross, so that colour is not the only difference."""
    if correct:
        draw.line((x, y + 6, x + 4, y + 11, x + 12, y), fill=colour, width=3, joint="curve")
    else:
        draw.line((x, y, x + 11, y + 11), fill=colour, width=3)
        draw.line((x, y + 11, x + 11, y), fill=colour, width=3)
