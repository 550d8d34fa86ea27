"""Figures as SVG: scales, axes and markers. Colours are defined in the style sheet, for light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .markup import Markup, join, tag

COLOURS = 8
SHAPES = 8


@dataclass(frozen=True)
class Scale:
    """A linear map of the values from low to high to the coordinates from start to end."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        span = self.high - self.low
        return self.start + (value - self.low) / span * (self.end - self.start) if span else self.start


def figure(width: int, height: int, label: str, *children: Markup | None, class_: str = "figure") -> Markup:
    """Return an SVG figure; ``label`` describes it to screen readers, without one they skip it."""
    access: dict[str, str] = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return tag("svg", *children, viewBox=f"0 0 {width} {height}", class_=class_, **access)


def svg_text(x: float, y: float, child: str, *, anchor: str = "start", class_: str | None = None) -> Markup:
    """Return text at a position of a figure."""
    return tag("text", child, x=x, y=y, text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Return a line through all points."""
    return tag("polyline", points=_points(points), class_=class_)


def polygon(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Return the area inside the points."""
    return tag("polygon", points=_points(points), class_=class_)


def horizontal_axis(scale: Scale, y: float, ticks: Sequence[tuple[float, str]], title: str) -> Markup:
    """Return a horizontal axis at height y, with its ticks and its title below."""
    middle = (scale.start + scale.end) / 2
    return join(
        line(scale.start, y, scale.end, y, "axis"),
        *(svg_text(scale(v), y + 19, name, anchor="middle", class_="tick") for v, name in ticks),
        svg_text(middle, y + 42, title, anchor="middle", class_="title"),
    )


def vertical_axis(
    scale: Scale, x: float, right: float, ticks: Sequence[tuple[float, str]], title: str
) -> Markup:
    """Return a vertical axis at x, with grid lines to ``right`` and its title above."""
    top = min(scale.start, scale.end)
    return join(
        *(line(x, scale(v), right, scale(v), "grid") for v, _ in ticks),
        *(svg_text(x - 8, scale(v) + 5, name, anchor="end", class_="tick") for v, name in ticks),
        svg_text(x, top - 14, title, class_="title"),
    )


def percent_ticks(low: float = 0.0, high: float = 1.0) -> list[tuple[float, str]]:
    """Return the ticks of an axis of shares."""
    step = 0.25 if high - low > 0.6 else 0.1
    first = math.ceil(low / step - 1e-9)
    return [(i * step, f"{100 * i * step:.0f}%") for i in range(first, math.floor(high / step + 1e-9) + 1)]


def axis_ticks(highest: float) -> tuple[float, list[tuple[float, str]]]:
    """Return the end of an axis that begins at 0, and its ticks at round values."""
    if not highest > 0:
        return 1.0, [(0.0, "0")]
    power = 10.0 ** math.floor(math.log10(highest))
    step = next(s * power for s in (0.2, 0.5, 1.0, 2.0) if highest / (s * power) <= 5)
    ticks = [i * step for i in range(math.ceil(highest / step - 1e-9) + 1)]
    return ticks[-1], [(v, f"{v:g}" if v < 1e4 else f"{v:,.0f}") for v in ticks]


def marker(kind: int, x: float, y: float, size: float = 5.0, extra: str = "") -> Markup:
    """Return the marker of a class: its colour and its shape both differ from those of the next classes."""
    corners = _corners[(kind + kind // COLOURS) % SHAPES]
    class_ = f"mark k{kind % COLOURS} {extra}".strip()
    if not corners:
        return tag("circle", cx=x, cy=y, r=size, class_=class_)
    return polygon([(x + size * a, y + size * b) for a, b in corners], class_)


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _cross(turn: float) -> list[tuple[float, float]]:
    arm, half = 1.2, 0.4
    corners = [(half, arm), (half, half), (arm, half), (arm, -half), (half, -half), (half, -arm)]
    corners += [(-a, -b) for a, b in corners]
    c, s = math.cos(turn), math.sin(turn)
    return [(c * a - s * b, s * a + c * b) for a, b in corners]


_star = [
    (r * math.sin(i * math.pi / 5), -r * math.cos(i * math.pi / 5)) for i, r in enumerate([1.35, 0.6] * 5)
]
_corners: tuple[list[tuple[float, float]], ...] = (  # of the eight shapes; the first is a circle
    [],
    [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    [(0, -1.2), (1.15, 0.9), (-1.15, 0.9)],
    [(0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)],
    [(0, 1.2), (1.15, -0.9), (-1.15, -0.9)],
    _cross(0.0),
    _star,
    _cross(math.pi / 4),
)
