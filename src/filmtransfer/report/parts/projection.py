"""A map of the photos: the 2-D projection of their features.

The axes are the two directions in which the class means differ most (their principal axes); with two classes the
second axis is the direction in which photos differ most beside the first. Some photos are shown as pictures, the
others as markers with a colour and a shape for each class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import unit_rows
from ...formatting import percent
from ..drawing import COLOURS, SHAPES, Scale, figure, marker
from ..markup import Markup, join, paragraph, tag
from ..pictures import EmbeddedPictures
from ..report_data import ReportData
from . import Section

WIDTH, HEIGHT, EDGE = 480, 400, 24
PICTURE = 44  # units a side
MAX_PICTURES = 40
MAX_MARKERS = 12  # classes with a marker of their own, where there are more than COLOURS × 2
MAX_POINTS = 3000


@dataclass(frozen=True)
class ProjectionAxes:
    """Two orthonormal directions of feature space and their origin; ``share`` is the class means' variance in them."""

    centre: np.ndarray  # (D)
    directions: np.ndarray  # (2, D)
    share: float

    def __call__(self, features: np.ndarray) -> np.ndarray:
        return np.asarray((_unit(features) - self.centre) @ self.directions.T)


def fit_axes(features: np.ndarray, labels: np.ndarray) -> ProjectionAxes:
    """Compute the principal axes of the class means."""
    z = _unit(features)
    present = np.unique(labels)
    means = np.stack([z[labels == c].mean(0) for c in present])
    centre = means.mean(0)
    _, sizes, rows = np.linalg.svd(means - centre, full_matrices=False)
    total = float((sizes**2).sum())
    share = float((sizes[:2] ** 2).sum()) / total if total else 1.0
    directions = rows[:2] if len(present) > 2 else rows[:1]
    if len(directions) < 2:
        rest = z - centre
        rest = rest - rest @ directions.T @ directions
        directions = np.concatenate([directions, np.linalg.svd(rest, full_matrices=False)[2][:1]])
    largest = np.take_along_axis(directions, np.abs(directions).argmax(1, keepdims=True), 1)
    signs = np.where(largest < 0, -1.0, 1.0)  # one of two mirror images
    return ProjectionAxes(centre, directions * signs, share)


def section(data: ReportData, pictures: EmbeddedPictures) -> Section | None:
    """Return the section with the map; test photos are projected by the axes of the training photos."""
    photos = data.photos
    training = data.support if data.kind == "test" else None
    features, labels = (
        (photos.features, photos.labels) if training is None else (training.features, training.labels)
    )
    if len(features) < 3:
        return None
    axes = fit_axes(features, labels)
    background = np.empty((0, 2)) if training is None else axes(features)[:MAX_POINTS]
    markers = class_markers(data)
    label = f"A map of {len(photos)} photos of {len(data.classes)} classes: photos with similar features are close to each other."
    drawing = figure(
        WIDTH,
        HEIGHT,
        label,
        tag("rect", x=1, y=1, width=WIDTH - 2, height=HEIGHT - 2, rx=8, class_="ground"),
        *_draw(data, pictures, axes(photos.features), background, labels, markers),
        class_="figure map",
    )
    return Section(
        "projection",
        "A map of your photos" if data.kind == "train" else "A map of the test photos",
        join(_intro(data, axes, training is not None), drawing, _legend(data, markers)),
        f"all {len(photos):,} photos",
        term="2-D projection",
    )


def _draw(
    data: ReportData,
    pictures: EmbeddedPictures,
    points: np.ndarray,
    background: np.ndarray,
    background_labels: np.ndarray,
    markers: dict[int, int],
) -> list[Markup]:
    """Draw the training photos in pale, then markers and pictures of the photos; mistakes are emphasised."""
    everything = np.concatenate([points, background])
    low, high = everything.min(0).tolist(), everything.max(0).tolist()
    x, y = Scale(low[0], high[0], EDGE, WIDTH - EDGE), Scale(low[1], high[1], HEIGHT - EDGE, EDGE)
    pieces = [
        marker(markers.get(c, 0), x(a), y(b), 3.2, "pale" if c in markers else "pale other")
        for (a, b), c in zip(background.tolist(), background_labels.tolist(), strict=False)
    ]
    positions = [(x(a), y(b)) for a, b in points.tolist()]
    mistakes = _mistakes(data)
    chosen = spread(np.array(positions), PICTURE * 0.92, _order(data))
    numbers = {i: pictures.embed(data.photos.thumbnails[i]) for i in chosen}
    for i in range(0, len(positions), -(-len(positions) // MAX_POINTS)):
        if numbers.get(i) is None:
            c = int(data.photos.labels[i])
            extra = ("missed" if i in mistakes else "") + ("" if c in markers else " other")
            pieces.append(marker(markers.get(c, 0), *positions[i], 5.0, extra))
    for i, number in numbers.items():
        if number is not None:
            kind = markers.get(int(data.photos.labels[i]))
            pieces.append(_picture(pictures, number, positions[i], kind, i in mistakes))
    return pieces


def class_markers(data: ReportData) -> dict[int, int]:
    """Return the marker of each class: all have one if there are enough, else those with the most mistakes."""
    classes = len(data.classes)
    if classes <= 2 * COLOURS:
        return {c: c for c in range(classes)}
    error = np.zeros(classes)
    if data.predictions is not None:
        np.add.at(error, data.predictions.labels, 1 - data.predictions.label_probability)
    most = min(MAX_MARKERS, COLOURS * SHAPES)
    chosen = sorted(np.argsort(-error, kind="stable")[:most].tolist())
    return {c: kind for kind, c in enumerate(chosen)}


def spread(points: np.ndarray, apart: float, order: list[int], most: int = MAX_PICTURES) -> list[int]:
    """Return the points that can be shown as pictures without covering each other, chosen in the given order."""
    chosen: list[int] = []
    for i in order:
        if len(chosen) >= most:
            break
        if not chosen or np.abs(points[chosen] - points[i]).max(1).min() >= apart:
            chosen.append(i)
    return chosen


def _order(data: ReportData) -> list[int]:
    """Return misclassified photos first, then the others in regular steps."""
    mistakes, count = _mistakes(data), len(data.photos)
    step = max(1, count // 200)
    rest = [i for s in range(min(step, 3)) for i in range(s, count, step) if i not in mistakes]
    return [*sorted(mistakes)[:MAX_PICTURES], *rest]


def _mistakes(data: ReportData) -> set[int]:
    predictions = data.predictions
    return set() if predictions is None else set(predictions.index[~predictions.correct].tolist())


def _picture(
    pictures: EmbeddedPictures, number: int, position: tuple[float, float], kind: int | None, mistake: bool
) -> Markup:
    """Draw a photo with its class's marker in a corner, and a ring if it was misclassified."""
    half = PICTURE / 2
    x = min(max(position[0], half + 4), WIDTH - half - 4)
    y = min(max(position[1], half + 4), HEIGHT - half - 4)
    return join(
        pictures.draw(number, x - half, y - half, PICTURE),
        tag("rect", x=x - half, y=y - half, width=PICTURE, height=PICTURE, class_="ring")
        if mistake
        else None,
        marker(kind or 0, x - half + 5, y - half + 5, 6.0, "on other" if kind is None else "on"),
    )


def _intro(data: ReportData, axes: ProjectionAxes, has_training: bool) -> Markup:
    kept = f"This flat map keeps {percent(axes.share, 0)} of the differences between the classes; classes that overlap here can still be separate in other directions."
    sentences = [
        "Photos that look alike to the classifier are close to each other.",
        "Pale markers are the training photos; strong ones and pictures are the test photos."
        if has_training
        else "",
        kept,
        ""
        if has_training
        else "The map was made from the photos that it shows, so the classes look a little tidier than they are.",
        "A red ring marks a mistake." if _mistakes(data) else "",
    ]
    return paragraph(" ".join(filter(None, sentences)))


def _legend(data: ReportData, markers: dict[int, int]) -> Markup:
    items = [
        tag("li", figure(16, 16, "", marker(kind, 8, 8, 5.0), class_="sign"), tag("bdi", data.classes[c]))
        for c, kind in markers.items()
    ]
    others = len(data.classes) - len(markers)
    if others:
        sign = figure(16, 16, "", marker(0, 8, 8, 5.0, "other"), class_="sign")
        items.append(tag("li", sign, f"the other {others} classes"))
    return tag("ul", *items, class_="legend")


def _unit(features: np.ndarray) -> np.ndarray:
    return np.asarray(unit_rows(features.astype(np.float64)))
