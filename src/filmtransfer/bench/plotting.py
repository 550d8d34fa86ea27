"""What all figures share: their look, how rows become points, how a picture is finished."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import MissingExtraError
from ..training.assess.evaluation import mean_interval
from .methods import METHODS

Row = Mapping[str, Any]

# Told apart without colour too: each method has its own mark.
COLOURS = ("#0b6e99", "#c2410c", "#15803d", "#7c3aed", "#a16207", "#be185d", "#475569", "#0f766e")
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
GRID, INK, MUTED = "#e5e7eb", "#1b1f24", "#6b7280"


def setting_values(rows: Sequence[Row], name: str) -> list[Any]:
    """The values of a setting as they come, numbers before words and in order."""
    found = list(dict.fromkeys(r["settings"][name] for r in rows if name in r["settings"]))
    if name == "method":
        found.sort(key=lambda v: list(METHODS).index(v) if v in METHODS else len(METHODS))
    if name in ("shots", "clients"):
        found.sort(key=lambda v: (isinstance(v, str), v))
    return found


def select_rows(rows: Sequence[Row], **wanted: Any) -> list[Row]:
    return [r for r in rows if all(r["settings"].get(k) == v for k, v in wanted.items())]


def group_rows(rows: Sequence[Row], by: str, **wanted: Any) -> dict[Any, list[Row]]:
    same = select_rows(rows, **wanted)
    return {v: part for v in setting_values(rows, by) if (part := select_rows(same, **{by: v}))}


def accuracy_interval(rows: Sequence[Row]) -> tuple[float, float]:
    middle, half = mean_interval([100 * r["result"]["accuracy"] for r in rows])
    return middle, 0.0 if half != half else half


def mean_accuracy(rows: Sequence[Row]) -> float:
    return accuracy_interval(rows)[0]


def series_style(among: Sequence[Any], one: Any) -> tuple[str, str]:
    """Its colour and its mark."""
    place = among.index(one) % len(COLOURS)
    return COLOURS[place], MARKS[place]


def load_pyplot() -> Any:
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot as found
    except ImportError:
        raise MissingExtraError("A figure", "report") from None
    return found


def make_panels(count: int) -> tuple[Any, list[Any]]:
    width = 4.4 * count if count > 1 else 6.4
    figure, axes = load_pyplot().subplots(1, count, figsize=(width, 3.9), squeeze=False, layout="constrained")
    for axis in axes[0]:
        style_axis(axis)
    return figure, list(axes[0])


def style_axis(axis: Any) -> None:
    axis.grid(axis="y", color=GRID)
    axis.set_axisbelow(True)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def finish_figure(figure: Any, note: str) -> bytes:
    """With one legend for all panels."""
    drawn: dict[str, Any] = {}  # in any panel: a method may be missing in the first one
    for axis in figure.axes:
        drawn |= {label: h for h, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    legend = figure.legend(
        drawn.values(),
        drawn.keys(),
        loc="outside lower center",
        ncols=_columns(list(drawn), figure.get_figwidth()),
        frameon=False,
        fontsize=9,
        title=textwrap.fill(note, int(13 * figure.get_figwidth())),
    )
    legend.get_title().set(fontsize=8.5, color=MUTED, multialignment="center")
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([40])
    return figure_png(figure)


def _columns(labels: list[str], inches: float) -> int:
    """As many columns of the legend as fit: a line and a name of the longest label's width each."""
    longest = max(map(len, labels), default=1)
    return max(1, min(len(labels), 5, int(inches / (0.62 + 0.075 * longest))))


def figure_png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=140, facecolor="white")
    load_pyplot().close(figure)
    return buffer.getvalue()
