"""The confusion matrix, with a typical photo of each class and the photos behind the most frequent confusions.

With many classes the table shows those with the most mistakes.
"""

from __future__ import annotations

import numpy as np

from ...arrays import unit_rows
from ...formatting import times
from ..markup import Markup, breakable, class_name, join, paragraph, scrollable, tag
from ..pictures import EmbeddedPictures
from ..report_data import PhotoPredictions, ReportData, ReportPhotos
from . import Section
from .cards import hidden_count, photo

MAX_CLASSES = 14  # in the table
FEW_CLASSES = 6  # for which there is room for wide columns
MAX_PAIRS = 6
MAX_PHOTOS = 4  # of a pair
SHADES = 4


def typical_photos(photos: ReportPhotos, classes: int) -> list[int | None]:
    """Return for each class the photo whose features have the largest cosine with the class's mean."""
    unit = unit_rows(photos.features)
    typical: list[int | None] = []
    for c in range(classes):
        members = np.flatnonzero(photos.labels == c)
        if len(members) == 0:
            typical.append(None)
            continue
        similarity = unit[members] @ photos.features[members].mean(0)
        typical.append(int(members[similarity.argmax()]))
    return typical


def shown_classes(confusion: np.ndarray, most: int = MAX_CLASSES) -> list[int]:
    """Return the classes of the table in their order: all, or those in the most mistakes (by row or column)."""
    classes = len(confusion)
    if classes <= most:
        return [c for c in range(classes) if int(confusion[c].sum() + confusion[:, c].sum())]
    mistakes = confusion.sum(0) + confusion.sum(1) - 2 * confusion.diagonal()
    return sorted(np.argsort(-mistakes, kind="stable")[:most].tolist())


def confused_pairs(predictions: PhotoPredictions) -> list[tuple[int, int, list[int]]]:
    """Return (true class, predicted class, rows) for all mistakes, the most frequent first."""
    groups: dict[tuple[int, int], list[int]] = {}
    for row in np.flatnonzero(~predictions.correct).tolist():
        groups.setdefault((int(predictions.labels[row]), int(predictions.predicted[row])), []).append(row)
    return [(*key, rows) for key, rows in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))]


def section(data: ReportData, pictures: EmbeddedPictures) -> Section | None:
    """Return the section on confused classes."""
    predictions = data.predictions
    if predictions is None:
        return None
    confusion = predictions.evaluation.confusion
    shown = shown_classes(confusion)
    pieces = [_table(data, pictures, confusion, shown)]
    if len(shown) < len(data.classes):
        pieces.append(paragraph(_omitted(confusion, shown), class_="quiet"))
    repeated = [pair for pair in confused_pairs(predictions) if len(pair[2]) > 1]
    if repeated:
        items = [_pair(data, pictures, predictions, pair) for pair in repeated[:MAX_PAIRS]]
        pieces += [
            tag("h3", "Most often confused"),
            tag("ul", *items, class_="pairs"),
            hidden_count(
                len(repeated) - MAX_PAIRS,
                "pair that was confused more than once",
                "pairs that were confused more than once",
            ),
        ]
    title, basis = "Which classes are confused?", data.basis(predictions)
    return Section("confusion", title, join(*pieces), basis, term="confusion matrix")


def _omitted(confusion: np.ndarray, shown: list[int]) -> str:
    classes = f"{len(shown)} classes of {len(confusion)}"
    mistakes = int(confusion.sum() - confusion.diagonal().sum())
    if not mistakes:
        return f"Shown are {classes}; there was no mistake in any."
    inside = int(confusion[shown][:, shown].sum() - confusion.diagonal()[shown].sum())
    return f"Shown are the {classes} with the most mistakes; {inside} of all {mistakes} mistakes are between them."


def _table(data: ReportData, pictures: EmbeddedPictures, confusion: np.ndarray, shown: list[int]) -> Markup:
    typical = typical_photos(data.photos, len(data.classes))

    def thumb(c: int) -> Markup | None:
        i = typical[c]
        return None if i is None else photo(data, pictures, i, "thumb tiny")

    def name(c: int) -> Markup:
        return tag("span", breakable(data.classes[c]), class_="short", title=data.classes[c])

    others = len(shown) < len(data.classes)
    heads = [tag("th", tag("span", thumb(c), name(c), class_="head"), scope="col") for c in shown]
    if others:
        heads.append(
            tag("th", tag("span", tag("span", "others", class_="short"), class_="head"), scope="col")
        )
    rows = []
    for c in shown:
        total = int(confusion[c].sum())
        cells = [_cell(int(confusion[c, d]), total, c == d) for d in shown]
        if others:
            cells.append(_cell(total - int(confusion[c, shown].sum()), total, False))
        rows.append(tag("tr", tag("th", tag("span", thumb(c), name(c), class_="who"), scope="row"), *cells))
    corner = tag("td", "true ↓", tag("br"), "predicted →", class_="together")
    size = "matrix few" if len(heads) <= FEW_CLASSES else "matrix"
    table = tag("table", tag("thead", tag("tr", corner, *heads)), tag("tbody", *rows), class_=size)
    return scrollable("Confusion matrix", table)


def _cell(number: int, total: int, correct: bool) -> Markup:
    if number == 0:
        return tag("td", "·", class_="zero")
    shade = min(SHADES, 1 + int(SHADES * number / max(total, 1)))
    return tag("td", f"{number:,}", class_=f"{'good' if correct else 'bad'}{shade}")


def _pair(
    data: ReportData,
    pictures: EmbeddedPictures,
    predictions: PhotoPredictions,
    pair: tuple[int, int, list[int]],
) -> Markup:
    label, predicted, rows = pair
    thumbs = [photo(data, pictures, int(predictions.index[row]), "thumb small") for row in rows[:MAX_PHOTOS]]
    first, second = class_name(data.classes[label]), class_name(data.classes[predicted])
    line = tag("span", first, " mistaken for ", second, f", {times(len(rows))}")
    return tag("li", tag("span", *thumbs, class_="row"), line)
