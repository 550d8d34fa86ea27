"""What all figures share: selecting rows, styles, and saving as PNG."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.figures import MUTED, load_pyplot, style_axis
from ..training.assess.evaluation import mean_interval
from .methods import METHODS
from .rows import Row

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Methods are distinguished by marker as well as by colour.
COLOURS = ("#0b6e99", "#c2410c", "#15803d", "#7c3aed", "#a16207", "#be185d", "#475569", "#0f766e")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


def setting_values(rows: Sequence[Row], name: str) -> list[Any]:
    """Return the distinct values of a setting: methods in their order, shots and clients in ascending order."""
    values = list(dict.fromkeys(r["settings"][name] for r in rows if name in r["settings"]))
    if name == "method":
        values.sort(key=lambda v: list(METHODS).index(v) if v in METHODS else len(METHODS))
    if name in ("shots", "clients"):
        values.sort(key=lambda v: (isinstance(v, str), v))
    return values


def select_rows(rows: Sequence[Row], **settings: object) -> list[Row]:
    """Return the rows with these settings."""
    return [r for r in rows if all(r["settings"].get(k) == v for k, v in settings.items())]


def group_rows(rows: Sequence[Row], by: str, **settings: object) -> dict[Any, list[Row]]:
    """Group the rows with these settings by the value of one more setting."""
    same = select_rows(rows, **settings)
    return {v: part for v in setting_values(rows, by) if (part := select_rows(same, **{by: v}))}


def accuracy_interval(rows: Sequence[Row]) -> tuple[float, float]:
    """Return mean and half-width of the 95% interval in percent; the latter is 0 for a single seed."""
    mean, half_width = mean_interval([100 * r["result"]["accuracy"] for r in rows])
    return mean, 0.0 if math.isnan(half_width) else half_width


def series_style(series: Sequence[object], one: object) -> tuple[str, str]:
    """Return colour and marker of one of several series."""
    index = series.index(one) % len(COLOURS)
    return COLOURS[index], MARKERS[index]


def make_panels(count: int) -> tuple[Figure, list[Axes]]:
    """Create a figure with panels side by side."""
    figure, axes = make_grid(1, count, (4.4 * count if count > 1 else 6.4, 3.9))
    return figure, list(axes[0])


def make_grid(
    rows: int, columns: int, inches: tuple[float, float], **shared: Any
) -> tuple[Figure, np.ndarray]:
    """Create a figure with rows of panels, with a horizontal grid and without the upper and right border."""
    figure, axes = load_pyplot().subplots(
        rows, columns, figsize=inches, squeeze=False, layout="constrained", **shared
    )
    for axis in axes.flat:
        style_axis(axis)
    return figure, axes


def finish_figure(figure: Figure, note: str) -> bytes:
    """Add one legend for all panels and return the figure as PNG."""
    handles: dict[str, Artist] = {}  # of all panels: a method may be missing in the first one
    for axis in figure.axes:
        handles |= {label: h for h, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    legend = figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=_columns(list(handles), figure.get_figwidth()),
        frameon=False,
        fontsize=9,
        title=textwrap.fill(note, int(13 * figure.get_figwidth())),
    )
    legend.get_title().set(fontsize=8.5, color=MUTED, multialignment="center")
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_sizes"):
            handle.set_sizes([40])
    return figure_png(figure)


def _columns(labels: list[str], inches: float) -> int:
    """Return how many columns of the legend fit in the width."""
    longest = max(map(len, labels), default=1)
    return max(1, min(len(labels), 5, int(inches / (0.62 + 0.075 * longest))))


def figure_png(figure: Figure) -> bytes:
    """Return the figure as PNG and close it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140, facecolor="white")
    load_pyplot().close(figure)
    return buffer.getvalue()
