"""The reliability diagram: how often predictions are correct, by their confidence (calibration)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...formatting import percent
from ...training.assess.calibration import calibration_error
from ...training.assess.evaluation import wilson
from ..drawing import Scale, figure, horizontal_axis, line, percent_ticks, svg_text, vertical_axis
from ..markup import Markup, join, paragraph, tag
from ..report_data import PhotoPredictions, ReportData
from . import Section

TELLS_NOTHING = 0.6  # width of the interval of the accuracy
VISIBLE = 0.1  # change of log T that can be seen in the diagram
FEW_IMAGES = 100  # below which there are half as many bins
WIDTH, HEIGHT, SIDE, TOP = 480, 470, 330, 36


@dataclass(frozen=True)
class ConfidenceBin:
    """Predictions of about the same confidence."""

    confidence: float  # on average
    correct: int
    total: int

    @property
    def accuracy(self) -> float:
        """The share of correct predictions."""
        return self.correct / self.total


def confidence_bins(probabilities: np.ndarray, labels: np.ndarray, number: int) -> list[ConfidenceBin | None]:
    """Return bins of equal width from 0 to 1; None for a bin without predictions."""
    confidence, predicted = probabilities.max(1), probabilities.argmax(1)
    index = np.minimum((confidence * number).astype(int), number - 1)
    bins: list[ConfidenceBin | None] = []
    for b in range(number):
        rows = index == b
        total = int(rows.sum())
        correct = int((predicted == labels)[rows].sum())
        bins.append(ConfidenceBin(float(confidence[rows].mean()), correct, total) if total else None)
    return bins


def visibly_calibrated(predictions: PhotoPredictions) -> bool:
    """Return whether the temperature makes a difference that can be seen."""
    return abs(math.log(predictions.predictor.temperature)) > VISIBLE


def section(data: ReportData) -> Section | None:
    """Return the section on calibration."""
    predictions = data.headline
    if predictions is None:
        return None
    number = 5 if len(predictions) < FEW_IMAGES else 10
    after = confidence_bins(predictions.probabilities, predictions.labels, number)
    before = None
    explanation = (
        "Reliability diagram: on the dashed line the percentages mean what they say. Vertical bars show how far chance alone "
        "can move a dot (95%); the larger a dot, the more photos, which the grey bars count."
    )
    if visibly_calibrated(predictions):
        before = confidence_bins(predictions.uncalibrated, predictions.labels, number)
        explanation += " Hollow dots: before temperature scaling."
    return Section(
        "reliability",
        "Can the percentages be trusted?",
        join(
            paragraph(_verdict(data, predictions)),
            draw(after, before, len(predictions)),
            paragraph(explanation, class_="quiet"),
        ),
        data.basis(predictions),
        term="calibration",
    )


def _verdict(data: ReportData, predictions: PhotoPredictions) -> str:
    accuracy, confidence = float(predictions.correct.mean()), float(predictions.confidence.mean())
    low, high = wilson(int(predictions.correct.sum()), len(predictions))
    averages = f"On average the classifier was {percent(confidence, 0)} confident, and {percent(accuracy, 0)} of its predictions were correct"
    if high - low > TELLS_NOTHING:
        verdict = ": too few photos to tell whether its percentages can be trusted."
    elif low <= confidence <= high:
        verdict = ": its percentages can be trusted, as far as so many photos can show."
    elif confidence > accuracy:
        verdict = ": it is overconfident, that is, its predictions are correct less often than it says."
    else:
        verdict = ": it is underconfident, that is, its predictions are correct more often than it says."
    if not visibly_calibrated(predictions):
        return averages + verdict
    change = "less" if predictions.predictor.temperature > 1 else "more"
    source = "on these photos" if data.kind == "train" else "in training"
    scaling = f" Temperature scaling made it {change} confident (T = {predictions.predictor.temperature:.2f}, chosen {source})"
    if len(predictions) < FEW_IMAGES:
        return f"{averages}{verdict}{scaling}."
    before, after = (
        percent(calibration_error(p, predictions.labels), 0)
        for p in (predictions.uncalibrated, predictions.probabilities)
    )
    return (
        f"{averages}{verdict}{scaling}: the mean gap between confidence and accuracy (expected calibration error, ECE) "
        f"was {before} before and is {after} after."
    )


def draw(after: list[ConfidenceBin | None], before: list[ConfidenceBin | None] | None, images: int) -> Markup:
    """Draw the reliability diagram, with hollow dots for the bins before temperature scaling."""
    x, y = Scale(0, 1, 70, 70 + SIDE), Scale(0, 1, TOP + SIDE, TOP)
    pieces = [
        vertical_axis(y, 62, 70 + SIDE, percent_ticks(), "correct predictions"),
        line(x(0), y(0), x(1), y(1), "ideal"),
    ]
    pieces += [
        tag("circle", cx=x(b.confidence), cy=y(b.accuracy), r=5.0, class_="hollow")
        for b in before or []
        if b is not None
    ]
    bins = [b for b in after if b is not None]
    most = max(b.total for b in bins)
    width = SIDE / len(after)
    for i, b in enumerate(after):
        if b is None:
            continue
        low, high = wilson(b.correct, b.total)  # 95% interval
        tall = 38 * b.total / most
        left, middle, base = x(i / len(after)) + 2, x((i + 0.5) / len(after)), TOP + SIDE + 44
        radius = 4.5 + 4.5 * math.sqrt(b.total / most)
        pieces += [
            tag("rect", x=left, y=base - tall, width=width - 4, height=tall, class_="count"),
            svg_text(middle, base + 14, f"{b.total:,}", anchor="middle", class_="tick small"),
            line(x(b.confidence), y(low), x(b.confidence), y(high), "whisker"),
            tag("circle", cx=x(b.confidence), cy=y(b.accuracy), r=radius, class_="dot"),
        ]
    values = ", ".join(
        f"{percent(b.confidence, 0)} confident: {b.correct} of {b.total} correct" for b in bins
    )
    return figure(
        WIDTH,
        HEIGHT,
        f"How often predictions were correct, by their confidence, on {images} photos. {values}",
        *pieces,
        horizontal_axis(x, TOP + SIDE + 62, percent_ticks(), "confidence"),
        class_="figure square",
    )
