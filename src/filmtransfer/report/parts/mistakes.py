"""The worst mistakes, and the correct predictions with the lowest confidence."""

from __future__ import annotations

import numpy as np

from ...formatting import capitalize, count
from ..markup import Markup, join, paragraph, tag
from ..pictures import EmbeddedPictures
from ..report_data import PhotoPredictions, ReportData
from . import Section
from .cards import card, card_list, file_name, hidden_count, photo, prediction_lines

MAX_SHOWN = 12
LOW_CONFIDENCE = 0.9  # below it, a correct prediction is shown


def worst_mistakes(predictions: PhotoPredictions) -> np.ndarray:
    """Return the rows of wrong predictions, the most confident first."""
    rows = np.flatnonzero(~predictions.correct)
    excess = (predictions.confidence - predictions.label_probability)[rows]
    return rows[np.argsort(-excess, kind="stable")]


def lowest_margins(predictions: PhotoPredictions) -> np.ndarray:
    """Return the rows of correct predictions, the smallest margin to the second class first."""
    if predictions.probabilities.shape[1] < 2:
        return np.empty(0, np.int64)
    rows = np.flatnonzero(predictions.correct)
    second, first = np.sort(predictions.probabilities[rows], 1)[:, -2:].T
    return rows[np.argsort(first - second, kind="stable")]


def section(data: ReportData, pictures: EmbeddedPictures) -> Section | None:
    """Return the section on mistakes and low-confidence photos."""
    predictions = data.predictions
    if predictions is None:
        return None

    def cards(rows: np.ndarray, noun: str, title: str, intro: str) -> Markup:
        items = [
            card(
                photo(data, pictures, int(predictions.index[row])),
                prediction_lines(data, predictions, row),
                file_name(data.photos.names[int(predictions.index[row])]),
            )
            for row in rows[:MAX_SHOWN].tolist()
        ]
        hidden = hidden_count(len(rows) - MAX_SHOWN, noun)
        return join(tag("h3", title), paragraph(intro), card_list(items), hidden)

    wrong, correct = worst_mistakes(predictions), lowest_margins(predictions)
    unsure = correct[predictions.confidence[correct] < LOW_CONFIDENCE]
    mistakes = paragraph("No photo was misclassified.")
    if len(wrong):
        total = capitalize(count(len(wrong), "photo was", "photos were"))
        intro = f"{total} misclassified. Each is shown with the predicted class (✗) and its label, the most confident mistake first."
        mistakes = cards(wrong, "mistake", "Worst mistakes", intro)
    low_confidence = paragraph("Every correct prediction had high confidence.")
    if len(unsure):
        intro = "Another class was close. More photos like these are the most useful to add."
        low_confidence = cards(unsure, "low-confidence photo", "Correct, but with low confidence", intro)
    title = "Mistakes and low-confidence photos"
    return Section("mistakes", title, join(mistakes, low_confidence), data.basis(predictions))
