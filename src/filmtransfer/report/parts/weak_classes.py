"""Which classes need more photos: those recognised worst, and those with too few photos to assess them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...formatting import count, percent, times
from ..markup import Markup, class_list, class_name, join, paragraph, table, tag
from ..report_data import PhotoPredictions, ReportData
from . import Section, label_issues

GOOD_ACCURACY = 0.9  # a class needs no photos if so many of its photos are recognised …
GOOD_PROBABILITY = 0.65  # … and their own class has this probability on average
MAX_ROWS = 12
MAX_NAMED = 3


@dataclass(frozen=True)
class ClassResult:
    """How well one class is recognised."""

    label: int
    photos: int  # in training
    assessed: int
    correct: int
    probability: float  # mean probability of the class for its own photos; 0 if none was assessed
    confused_with: int | None  # the class predicted most often instead, or else the most probable other class
    mistakes: int  # photos predicted as that class

    @property
    def weak(self) -> bool:
        """Whether more photos of the class are advisable."""
        return (
            self.assessed == 0
            or self.correct < GOOD_ACCURACY * self.assessed
            or self.probability < GOOD_PROBABILITY
        )


def class_results(
    predictions: PhotoPredictions, counts: list[int], excluded_rows: Sequence[int] = ()
) -> list[ClassResult]:
    """Return all classes, the weakest first: by the probability of their own photos, then by fewer photos.

    ``excluded_rows`` are photos with a wrong label, which say nothing about their class.
    """
    included = np.ones(len(predictions), bool)
    included[list(excluded_rows)] = False
    results = []
    for c, photos in enumerate(counts):
        rows = (predictions.labels == c) & included
        total = int(rows.sum())
        if total == 0:
            results.append(ClassResult(c, photos, 0, 0, 0.0, None, 0))
            continue
        predicted = np.bincount(predictions.predicted[rows], minlength=len(counts))
        correct = int(predicted[c])
        predicted[c] = -1
        probabilities = predictions.probabilities[rows].mean(0)
        own = float(probabilities[c])
        probabilities[c] = -1
        other = int(predicted.argmax()) if int(predicted.max()) > 0 else int(probabilities.argmax())
        results.append(ClassResult(c, photos, total, correct, own, other, max(0, int(predicted[other]))))
    return sorted(results, key=lambda result: (result.probability, result.photos, result.label))


def section(data: ReportData) -> Section | None:
    """Return the section on the classes that need more photos."""
    predictions = data.predictions
    if predictions is None:
        return None
    mislabelled = [issue.row for issue in label_issues.find(data, predictions)]
    results = class_results(predictions, data.update.counts, mislabelled)
    if data.kind == "test":
        results = [result for result in results if result.assessed]
    weak = [result for result in results if result.weak]
    pieces: list[Markup] = []
    advice: list[Markup] = []
    if weak:
        pieces = _weak_classes(data, weak)
        names = [data.classes[result.label] for result in weak[:MAX_NAMED]]
        advice = [join("Photograph more of ", class_list(names), ".")]
    else:
        pieces.append(
            paragraph(
                "No class stands out: all of them were recognised well. For a harder test, add photos from other places and in other light."
            )
        )
    pieces.append(_table(data, results))
    if mislabelled:
        pieces.append(paragraph("Photos whose labels may be wrong are not counted here.", class_="quiet"))
    return Section("weak-classes", "Photograph more of these", join(*pieces), data.basis(predictions), advice)


def _weak_classes(data: ReportData, weak: list[ClassResult]) -> list[Markup]:
    """Describe the weakest classes, and name those that have only one photo."""
    assessed = [result for result in weak if result.assessed][:MAX_NAMED]
    single = [data.classes[result.label] for result in weak if not result.assessed]
    pieces = []
    if assessed:
        pieces.append(
            tag("ul", *(tag("li", _describe(data, result)) for result in assessed), class_="described")
        )
    if single:
        have = "has one photo" if len(single) == 1 else "have one photo each"
        pieces.append(
            paragraph(
                class_list(single, 6),
                f" {have} and cannot be assessed. A second photo would make it possible, five would be better.",
            )
        )
    return pieces


def _describe(data: ReportData, result: ClassResult) -> Markup:
    """Describe one class in a sentence or two."""
    missed = result.assessed - result.correct
    name = tag("strong", class_name(data.classes[result.label]))
    total, were = result.assessed, "was" if missed == 1 else "were"
    share = f"{missed} of {total} {were}" if total > 1 else "its only photo was"
    if missed == 0:
        subject = f"all {total} were" if total > 1 else "its only photo was"
        outcome = (
            f": {subject} recognised, but with low confidence ({percent(result.probability, 0)} on average)"
        )
    else:
        outcome = f": {share} not recognised"
    if result.confused_with is None:
        return join(name, outcome, ".")
    other = class_name(data.classes[result.confused_with])
    if not result.mistakes:
        confusion = join(outcome, "; the most similar class is ", other)
    elif result.mistakes == missed:
        confusion = join(f": {share} mistaken for ", other)
    else:
        confusion = join(outcome, f", {times(result.mistakes)} mistaken for ", other)
    return join(name, confusion, ". Photograph both where they look most alike.")


def _table(data: ReportData, results: list[ClassResult]) -> Markup:
    def row(result: ClassResult) -> list[str | int | None]:
        name = class_name(data.classes[result.label])
        if result.assessed == 0:
            return [name, result.photos, "–", "–", None]
        confusion = None
        if result.mistakes and result.confused_with is not None:
            confusion = join(class_name(data.classes[result.confused_with]), f" ({result.mistakes})")
        return [name, result.photos, f"{result.correct} of {result.assessed}", _bar(result), confusion]

    photos = "photos" if data.kind == "train" else "training photos"
    heads: list[str | int | None] = ["class", photos, "recognised", "mean probability", "mistaken for"]
    first = table(
        heads, [row(r) for r in results[:MAX_ROWS]], "Classes, the weakest first", (1, 2), "stacked"
    )
    if len(results) <= MAX_ROWS:
        return first
    rest = table(heads, [row(r) for r in results[MAX_ROWS:]], "The other classes", (1, 2), "stacked")
    summary = f"The other {count(len(results) - MAX_ROWS, 'class', 'classes')}"
    return join(first, tag("details", tag("summary", summary), rest))


def _bar(result: ClassResult) -> Markup:
    fill = tag(
        "span", style=f"width:{100 * result.probability:.0f}%", class_="fill low" if result.weak else "fill"
    )
    bar = tag("span", fill, class_="bar", aria_hidden="true")
    value = tag("span", percent(result.probability, 0), class_="beside-bar")
    return tag("span", bar, value, class_="together")
