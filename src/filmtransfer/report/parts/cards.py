"""Cards: a photo with a few lines about it."""

from __future__ import annotations

import numpy as np

from ...formatting import capitalize, count, percent
from ..markup import Markup, breakable_path, class_name, join, tag
from ..pictures import EmbeddedPictures
from ..report_data import PhotoPredictions, ReportData


def card(picture: Markup, *lines: Markup | str, class_: str = "card") -> Markup:
    """Return a picture with lines of text, as an item of a list of cards."""
    return tag("li", picture, tag("div", *lines, class_="lines"), class_=class_)


def card_list(items: list[Markup]) -> Markup:
    """Return a list of cards."""
    return tag("ul", *items, class_="cards")


def photo(data: ReportData, pictures: EmbeddedPictures, i: int, class_: str = "thumb") -> Markup:
    """Return photo i: complete where it is the subject, a square where it stands for a class or a neighbour."""
    square = class_ not in ("thumb", "thumb large")
    return pictures.show(data.photos.thumbnails[i], data.alt_text(i), class_, square=square)


def file_name(name: str) -> Markup:
    """Return the name of a photo's file."""
    return tag("span", tag("bdi", breakable_path(name)), class_="file")


def prediction_lines(data: ReportData, predictions: PhotoPredictions, row: int) -> Markup:
    """Return the predicted class with its confidence, and the label or the second most probable class."""
    predicted, label = int(predictions.predicted[row]), int(predictions.labels[row])
    confidence = tag("b", percent(float(predictions.confidence[row]), 0))
    line = join(class_name(data.classes[predicted]), " ", confidence)
    if predicted == label:
        first, relation = tag("span", "✓ ", line, class_="right-line"), "then "
        other = int(np.argsort(-predictions.probabilities[row], kind="stable")[1])
    else:
        first, relation, other = tag("span", "✗ ", line, class_="wrong-line"), "label ", label
    probability = percent(float(predictions.probabilities[row, other]), 0)
    name = class_name(data.classes[other])
    return join(first, tag("span", relation, name, f" {probability}", class_="quiet"))


def hidden_count(hidden: int, singular: str, plural: str = "") -> Markup:
    """Return a line that says how many more there are, if any."""
    if hidden <= 0:
        return Markup("")
    total = capitalize(count(hidden, f"more {singular} is", f"more {plural or singular + 's'} are"))
    return tag("p", f"{total} not shown.", class_="quiet")
