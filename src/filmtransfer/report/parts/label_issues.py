"""Photos that are likely mislabelled.

A head built without the photo gives its label a low probability and another class as much as that class's own photos
usually get, and photos of that class are among its nearest neighbours. This is a question to a person, not a decision:
a hard photo with the correct label can look the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import unit_rows
from ...formatting import capitalize, count, percent
from ..markup import Markup, class_list, class_name, join, link, paragraph, tag
from ..pictures import EmbeddedPictures
from ..report_data import PhotoPredictions, ReportData
from . import Section
from .cards import card, card_list, file_name, hidden_count, photo

MAX_LABEL_PROBABILITY = 0.1
MIN_RELATIVE_CONFIDENCE = 0.8  # of the median probability that photos of the predicted class get for it
NEIGHBOURS = 5
NEIGHBOUR_SHARE = 3  # one in so many neighbours must be of the predicted class
MAX_CANDIDATES = 40  # whose neighbours are compared
MAX_SHOWN = 8


@dataclass(frozen=True)
class LabelIssue:
    """A photo that is likely mislabelled."""

    row: int  # among the predictions
    photo: int  # among all photos
    label: int
    predicted: int
    neighbours: int  # how many of the nearest photos are of the predicted class …
    compared: int  # … of so many
    nearest_predicted: int | None  # the nearest photo of the predicted class
    nearest_labelled: int | None  # the nearest other photo with the same label


def find(data: ReportData, predictions: PhotoPredictions) -> list[LabelIssue]:
    """Return the likely mislabelled photos, the most likely first."""
    usual = np.full(predictions.probabilities.shape[1], np.inf)
    for c in np.unique(predictions.labels):
        usual[c] = np.quantile(predictions.label_probability[predictions.labels == c], 0.5, method="lower")
    candidates = (
        ~predictions.correct
        & (predictions.label_probability <= MAX_LABEL_PROBABILITY)
        & (predictions.confidence >= MIN_RELATIVE_CONFIDENCE * usual[predictions.predicted])
    )
    rows = np.flatnonzero(candidates)
    excess = (predictions.confidence - predictions.label_probability)[rows]
    rows = rows[np.argsort(-excess, kind="stable")][:MAX_CANDIDATES]
    unit = unit_rows(data.photos.features)
    issues = [_compare_neighbours(data, predictions, unit, int(row)) for row in rows]
    issues = [issue for issue in issues if NEIGHBOUR_SHARE * issue.neighbours >= issue.compared]
    return sorted(issues, key=lambda issue: -issue.neighbours)


def _compare_neighbours(
    data: ReportData, predictions: PhotoPredictions, unit: np.ndarray, row: int
) -> LabelIssue:
    i, labels = int(predictions.index[row]), data.photos.labels
    label, predicted = int(predictions.labels[row]), int(predictions.predicted[row])
    similarity = unit @ unit[i]
    copies = np.array(data.photos.digests) == data.photos.digests[i]
    similarity[copies] = -2  # itself, and copies: one with another label proves nothing
    order = np.argsort(-similarity, kind="stable")
    order = order[similarity[order] > -2]
    nearest = labels[order[:NEIGHBOURS]]

    def nearest_of(c: int) -> int | None:
        members = order[labels[order] == c]
        return int(members[0]) if len(members) else None

    neighbours = int((nearest == predicted).sum())
    return LabelIssue(
        row, i, label, predicted, neighbours, len(nearest), nearest_of(predicted), nearest_of(label)
    )


def _has_copy_with_other_label(data: ReportData, i: int) -> bool:
    """Return whether the same pixels have another label too, which the section on near-duplicates shows."""
    photos = data.photos
    return any(
        digest == photos.digests[i] and photos.labels[j] != photos.labels[i]
        for j, digest in enumerate(photos.digests)
    )


def section(data: ReportData, pictures: EmbeddedPictures) -> Section | None:
    """Return the section on labels to check."""
    predictions = data.predictions
    if predictions is None:
        return None
    anchor, title, basis = "label-issues", "Labels to check", data.basis(predictions)
    every = find(data, predictions)
    issues = [issue for issue in every if not _has_copy_with_other_label(data, issue.photo)]
    if not issues:
        copies = link("near-duplicates", "photos that have two labels")
        body = paragraph("No other label looks wrong than those of the ", copies, ".")
        return Section(anchor, title, body if every else paragraph("No label looks wrong."), basis)
    intro = paragraph(_intro(data, len(issues)))
    body = join(
        intro,
        card_list([_card(data, pictures, predictions, issue) for issue in issues[:MAX_SHOWN]]),
        hidden_count(
            len(issues) - MAX_SHOWN, "photo whose label may be wrong", "photos whose labels may be wrong"
        ),
    )
    names = class_list(list(dict.fromkeys(data.classes[issue.label] for issue in issues)))
    total = capitalize(count(len(issues), "label"))
    advice = join(f"{total} may be wrong (", names, f"). Check {'it' if len(issues) == 1 else 'them'}.")
    return Section(anchor, title, body, basis, [advice])


def _intro(data: ReportData, issues: int) -> str:
    them, labels = (
        ("it", "the label of this photo") if issues == 1 else ("them", "the labels of these photos")
    )
    subject = f"Built without {them}, the classifier" if data.kind == "train" else "The classifier"
    wrong = (
        "The label may be wrong, or the photo is only hard. Look at it"
        if issues == 1
        else "Some of the labels will be wrong, some of the photos are only hard. Look at each"
    )
    return (
        f"{subject} gives {labels} almost no probability, and predicts another class about as confidently as for that "
        f"class’s own photos. {wrong}, and move the file to another folder if its label is wrong."
    )


def _card(
    data: ReportData, pictures: EmbeddedPictures, predictions: PhotoPredictions, issue: LabelIssue
) -> Markup:
    """Return the photo beside the nearest photos of the predicted class and of its own label."""
    predicted = class_name(data.classes[issue.predicted])
    compare = [
        tag(
            "span",
            photo(data, pictures, other, "thumb small"),
            tag("span", "nearest ", class_name(data.classes[c]), class_="quiet"),
            class_="beside",
        )
        for other, c in ((issue.nearest_predicted, issue.predicted), (issue.nearest_labelled, issue.label))
        if other is not None
    ]
    nearest = (
        f"{issue.neighbours} of its {issue.compared} nearest photos are "
        if issue.compared > 1
        else "its nearest photo is "
    )
    confidence = tag("b", percent(float(predictions.confidence[issue.row]), 0))
    return card(
        photo(data, pictures, issue.photo, "thumb large"),
        tag("span", "labelled ", class_name(data.classes[issue.label])),
        tag("span", "predicted ", predicted, " ", confidence, class_="wrong-line"),
        tag("span", nearest, predicted, class_="quiet"),
        file_name(data.photos.names[issue.photo]),
        tag("span", *compare, class_="compare"),
        class_="card wider",
    )
