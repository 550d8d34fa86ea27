"""The learning curve: the head built from 1, 2, … photos of each class and tested on held-out photos.

Only the head is built again, which takes milliseconds; the fine-tuned backbone stays as it is. A draw uses the same
test photos for every number of shots, so that the curve shows the effect of the shots and not of the draw.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ...formatting import count, percent
from ...heads import Head, SingularError
from ...seeding import numpy_generator, permutation
from ..drawing import Scale, figure, horizontal_axis, percent_ticks, polygon, polyline, vertical_axis
from ..markup import Markup, join, paragraph, tag
from ..report_data import ReportData
from . import Section

# The photos to build the head from, in the order in which they are used, and the photos to test it on.
SupportSplit = tuple[np.ndarray, np.ndarray]
SHOTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
CLEAR_RISE = 0.02  # in accuracy: worth more photos, if there are enough photos to measure it
WIDTH, HEIGHT = 480, 300


@dataclass(frozen=True)
class LearningCurve:
    """Accuracy by shots: mean, minimum and maximum over several random draws."""

    shots: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    draws: int
    images: int  # tested in each draw


def cross_validated_curve(
    head: Head, features: np.ndarray, labels: np.ndarray, held_out: np.ndarray, *, seed: int
) -> LearningCurve | None:
    """Compute the curve by cross-validation on the ``held_out`` photos ((N) bool) whose class has another photo."""
    counts = np.bincount(labels)
    tested = held_out & (counts[labels] > 1)
    if not tested.any():
        return None
    draws, folds = _effort(len(labels), head)
    splits = [_folds(labels, tested, folds, numpy_generator(seed, "shots", draw)) for draw in range(draws)]
    largest = max(int(np.bincount(labels[pool]).max()) for draw in splits for pool, _ in draw)
    return _measure(head, features, labels, splits, largest)


def tested_curve(
    head: Head,
    support: np.ndarray,
    support_labels: np.ndarray,
    queries: np.ndarray,
    query_labels: np.ndarray,
    *,
    seed: int,
) -> LearningCurve | None:
    """Compute the curve on test photos."""
    draws, _ = _effort(len(support_labels), head)
    features, labels = np.concatenate([support, queries]), np.concatenate([support_labels, query_labels])
    test = np.arange(len(support_labels), len(labels))
    splits = [
        [(permutation(len(support_labels), numpy_generator(seed, "shots", draw)), test)]
        for draw in range(draws)
    ]
    return _measure(head, features, labels, splits, int(np.bincount(support_labels).max()))


def _effort(photos: int, head: Head) -> tuple[int, int]:
    """Return the number of draws and folds that take about a second."""
    if not head.closed_form:
        return 2, 2
    return (5, 4) if photos <= 150 else (3, 3) if photos <= 500 else (2, 2)


def _folds(
    labels: np.ndarray, tested: np.ndarray, folds: int, generator: np.random.Generator
) -> list[SupportSplit]:
    """Split so that every tested photo is tested once and no class loses all of its photos."""
    order = permutation(len(labels), generator)
    fold = np.full(len(labels), -1)
    for c in np.unique(labels[tested]):
        members = order[(labels[order] == c) & tested[order]]
        spare = min(folds, len(members)) if int((labels == c).sum()) == len(members) else folds
        fold[members] = np.arange(len(members)) % max(spare, 2)
    splits = [(order[fold[order] != f], order[fold[order] == f]) for f in range(folds)]
    return [(pool, test) for pool, test in splits if len(test)]


def _measure(
    head: Head, features: np.ndarray, labels: np.ndarray, splits: list[list[SupportSplit]], largest: int
) -> LearningCurve | None:
    rebuilt = head.approximate().match(features)
    grid = SHOTS if head.closed_form else SHOTS[1::2]
    shots = sorted({1, largest} | {k for k in grid if k < largest})
    if len(shots) > 7 or largest > 60:
        few = {1, 2, 5, 10, 20, *([50] if largest >= 100 else []), min(largest, 100)}
        shots = sorted(k for k in few if k <= largest)
    rows: dict[int, list[float]] = {}
    for k in shots:
        with suppress(SingularError):
            rows[k] = [_accuracy(rebuilt, features, labels, draw, k) for draw in splits]
    if not rows:
        return None
    return LearningCurve(
        list(rows),
        [sum(row) / len(row) for row in rows.values()],
        [min(row) for row in rows.values()],
        [max(row) for row in rows.values()],
        len(splits),
        sum(len(test) for _, test in splits[0]),
    )


def _accuracy(
    head: Head, features: np.ndarray, labels: np.ndarray, draw: list[SupportSplit], shots: int
) -> float:
    correct = total = 0
    for pool, test in draw:
        support = first_of_each(labels, pool, shots)
        logits = head.configure(features[support], labels[support]).logits(features[test])
        correct += int((logits.argmax(1) == labels[test]).sum())
        total += len(test)
    return correct / total


def first_of_each(labels: np.ndarray, pool: np.ndarray, shots: int) -> np.ndarray:
    """Return the first ``shots`` photos of each class in the pool (all, if it has fewer)."""
    chosen = np.zeros(len(pool), bool)
    for c in np.unique(labels[pool]):
        chosen[np.flatnonzero(labels[pool] == c)[:shots]] = True
    return pool[chosen]


def section(data: ReportData) -> Section | None:
    """Return the section with the learning curve, or why there is none."""
    anchor, term, title = "learning-curve", "learning curve", "Would more photos help?"
    if data.support is None:
        body = paragraph(
            "This needs the features of the training photos, which the update file does not contain. Train without ",
            tag("code", "--compact"),
            " to see it here.",
        )
        return Section(anchor, title, body, term=term)
    if data.headline is None:
        return None
    support, photos, seed = data.support, data.photos, data.update.seed
    if data.kind == "train":
        curve = cross_validated_curve(
            data.head, support.features, support.labels, support.held_out, seed=seed
        )
    else:
        labels = data.headline.labels
        curve = tested_curve(data.head, support.features, support.labels, photos.features, labels, seed=seed)
    if curve is None or len(curve.shots) < 2:
        body = paragraph(
            "With so few photos of each class there is no curve to draw: add a third photo to some of them."
        )
        return Section(anchor, title, body, term=term)
    notes = [
        f"The line is the mean of {curve.draws} random choices of the photos to learn from, the band goes from the worst to the best."
    ]
    if data.fine_tuned:
        notes.append("Only the last layer is built again each time; the fine-tuned backbone stays.")
    if max(data.update.counts) > min(data.update.counts):
        notes.append("Classes with fewer photos use all they have.")
    body = join(paragraph(_verdict(curve)), draw(curve), paragraph(" ".join(notes), class_="quiet"))
    return Section(anchor, title, body, data.basis(data.headline), term=term)


def _verdict(curve: LearningCurve) -> str:
    """Describe the gain of the last doubling of the photos."""
    last, end = curve.shots[-1], curve.mean[-1]
    half = max((i for i, k in enumerate(curve.shots) if k <= last / 2), default=0)
    rise = end - curve.mean[half]
    change = f"From {count(curve.shots[half], 'photo')} of each class to {last}, the accuracy {_went(curve.mean[half], end)}."
    clear = max(CLEAR_RISE, 1 / curve.images)
    if end >= 0.995:
        return f"{change} There is nothing left to gain by this measure; harder photos would show more."
    if rise > clear:
        return f"{change} The curve still rises: twice as many photos may well help again."
    if rise < -clear:
        return (
            f"{change} More photos did not help: look for wrong labels, or photos that show something else."
        )
    return f"{change} As far as {count(curve.images, 'photo')} can show, the curve is flat by now: more photos of the same kind would help little, photos of another kind may help."


def _went(before: float, after: float) -> str:
    first, last = percent(before, 0), percent(after, 0)
    return f"stayed at {last}" if first == last else f"went from {first} to {last}"


def draw(curve: LearningCurve) -> Markup:
    """Draw the mean with a band from the minimum to the maximum; shots are spaced evenly."""
    floor = 0.0 if min(curve.low) - 0.05 < 0.5 else 0.5
    x = Scale(0, len(curve.shots) - 1, 70, WIDTH - 24)
    y = Scale(floor, 1, HEIGHT - 52, 36)
    low, mean, high = (
        [(x(i), y(value)) for i, value in enumerate(values)] for values in (curve.low, curve.mean, curve.high)
    )
    dots = []
    for (px, py), (_, top), v in zip(mean, high, curve.mean, strict=True):
        label_y = top - 8 if top > 40 else py + 22  # above the band, or below the dot where that is outside
        dots.append(tag("circle", cx=px, cy=py, r=4.0, class_="dot"))
        dots.append(tag("text", percent(v, 0), x=px, y=label_y, text_anchor="middle", class_="value"))
    label = "Accuracy by photos of each class: " + ", ".join(
        f"{k}: {percent(v, 0)}" for k, v in zip(curve.shots, curve.mean, strict=True)
    )
    ticks = [(float(i), str(k)) for i, k in enumerate(curve.shots)]
    return figure(
        WIDTH,
        HEIGHT,
        label,
        vertical_axis(y, 58, WIDTH - 12, percent_ticks(floor, 1.0), "accuracy"),
        horizontal_axis(x, HEIGHT - 52, ticks, "photos of each class to learn from"),
        polygon([*high, *reversed(low)], "band"),
        polyline(mean, "curve"),
        *dots,
    )
