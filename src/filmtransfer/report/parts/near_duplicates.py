"""Near-duplicates: copies of a photo, and photos taken at the same moment.

Two photos are near-duplicates if their features are several times closer (by 1 − cos) than those of a photo and its
nearest neighbour usually are; identical pixels always are. Near-duplicates with two labels mislead training; those in
both the test and the training set, or among the training photos, make the measured accuracy too high.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import unit_rows
from ...formatting import capitalize, count
from ..markup import Markup, class_name, join, paragraph, tag, text
from ..pictures import EmbeddedPictures
from ..report_data import ReportData
from . import Section
from .cards import card_list, file_name, hidden_count, photo

MAX_RELATIVE_DISTANCE = 0.2  # of the usual distance to the nearest neighbour
IDENTICAL = 1e-6  # 1 − cos: no more than rounding
MIN_CLASS_SIZE = 4  # photos of a class, from which on it has a usual distance of its own
MAX_COMPARED = 5000  # photos
MAX_SHOWN = 8


@dataclass(frozen=True)
class DuplicatePair:
    """Two near-duplicates, first < second."""

    first: int
    second: int
    identical: bool
    labels_differ: bool


def find(features: np.ndarray, labels: np.ndarray, digests: list[str]) -> list[DuplicatePair]:
    """Return all pairs: those with different labels first, then identical ones, then by distance."""
    compared = min(len(labels), MAX_COMPARED)
    if compared < 2:
        return []
    unit = unit_rows(features[:compared])
    distances = 1 - unit @ unit.T
    np.fill_diagonal(distances, np.inf)
    usual = _usual_distance(distances.min(1), labels[:compared])
    limit = MAX_RELATIVE_DISTANCE * np.minimum(usual[:, None], usual)
    by_pair: dict[tuple[int, int], float] = {
        (i, j): float(distances[i, j])
        for i, j in np.argwhere((distances <= IDENTICAL) | (distances < limit)).tolist()
        if i < j
    }
    first_with: dict[str, int] = {}
    for j, digest in enumerate(digests):  # of all photos, also those beyond MAX_COMPARED
        i = first_with.setdefault(digest, j)
        if digest and i != j:
            by_pair[i, j] = 0.0
    pairs = {
        DuplicatePair(i, j, distance <= IDENTICAL, bool(labels[i] != labels[j])): distance
        for (i, j), distance in by_pair.items()
    }
    return sorted(pairs, key=lambda p: (not p.labels_differ, not p.identical, pairs[p], p.first, p.second))


def _usual_distance(nearest: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return how far a photo's nearest neighbour usually is (N): the median, or the class's upper quartile if that is less.

    Photos of the sea are more alike than photos of cats without being copies.
    """
    usual = np.full(len(labels), np.quantile(nearest, 0.5, method="lower"))
    for c in np.unique(labels):
        members = labels == c
        if int(members.sum()) >= MIN_CLASS_SIZE:
            usual[members] = np.minimum(usual[members], np.quantile(nearest[members], 0.75))
    return usual


def leaked(training: np.ndarray, test: np.ndarray) -> list[tuple[int, int]]:
    """Return (test, training) for every test photo whose features are those of a training photo."""
    unit = unit_rows(training)
    pairs = []
    for begin in range(0, len(test), 1024):
        cosines = unit_rows(test[begin : begin + 1024]) @ unit.T
        rows = np.flatnonzero(1 - cosines.max(1) <= IDENTICAL)
        pairs += [(begin + int(row), int(cosines[row].argmax())) for row in rows]
    return pairs


def section(data: ReportData, pictures: EmbeddedPictures) -> Section:
    """Return the section on near-duplicates."""
    photos = data.photos
    pairs = find(photos.features, photos.labels, photos.digests)
    parts = [
        _leaks(data),
        _pairs(data, pictures, [pair for pair in pairs if pair.labels_differ]),
        _pairs(data, pictures, [pair for pair in pairs if not pair.labels_differ]),
    ]
    pieces = [piece for part in parts if part for piece in part[0]]
    advice = [text(part[1]) for part in parts if part]
    basis = f"{'all ' if len(photos) > 1 else ''}{count(len(photos), 'photo')}, compared by their features"
    if len(photos) > MAX_COMPARED:
        basis = f"the features of the first {MAX_COMPARED:,} of {len(photos):,} photos, and the pixels of all"
    body = join(*pieces) if pieces else paragraph("There are no near-duplicates.")
    return Section("near-duplicates", "Near-duplicate photos", body, basis, advice)


Part = tuple[list[Markup], str]  # what to show, and the advice


def _leaks(data: ReportData) -> Part | None:
    if data.kind != "test" or data.support is None:
        return None
    pairs = leaked(data.support.features, data.photos.features)
    if not pairs:
        return None
    total = capitalize(count(len(pairs), "test photo is", "test photos are"))
    names = [f"{data.photos.names[i]} is {data.support.names[j]}" for i, j in pairs[:MAX_SHOWN]]
    pieces = [
        tag("h3", "Test photos that are also training photos"),
        paragraph(
            tag("strong", total),
            " also in the training set, so the accuracy at the top is too high. Remove them from the test folder.",
        ),
        tag("ul", *(tag("li", file_name(name)) for name in names)),
        hidden_count(len(pairs) - MAX_SHOWN, "such photo"),
    ]
    return pieces, f"{total} also in the training set, so the accuracy is too high. Remove them."


def _pairs(data: ReportData, pictures: EmbeddedPictures, pairs: list[DuplicatePair]) -> Part | None:
    """Show pairs that all have different labels, or all the same label."""
    if not pairs:
        return None
    total = count(len(pairs), "pair of near-duplicates", "pairs of near-duplicates")
    if pairs[0].labels_differ:
        title, noun = "With different labels", "such pair"
        effect = (
            "The same photo, or nearly the same, is in two classes. One of the labels is wrong, or the photo shows both: "
            "keep it in one class, or in neither."
        )
        advice = capitalize(f"{total} {'has' if len(pairs) == 1 else 'have'} different labels.")
    else:
        title, noun = "With the same label", "pair"
        inflated = (
            " but add little. They also make the estimated accuracy too high: when one is held out, "
            "the other is still among the training photos"
        )
        effect = (
            f"They count twice{inflated if data.kind == 'train' else ''}. Keep the better one of each pair."
        )
        advice = f"There {'is' if len(pairs) == 1 else 'are'} {total}."
    pieces = [
        tag("h3", title),
        paragraph(effect),
        card_list([_pair(data, pictures, pair) for pair in pairs[:MAX_SHOWN]]),
        hidden_count(len(pairs) - MAX_SHOWN, noun),
    ]
    return pieces, f"{advice} Keep one photo{'' if len(pairs) == 1 else ' of each pair'}."


def _pair(data: ReportData, pictures: EmbeddedPictures, pair: DuplicatePair) -> Markup:
    names, labels = data.photos.names, data.photos.labels
    sides = [
        tag(
            "div",
            photo(data, pictures, i),
            tag(
                "div",
                class_name(data.classes[int(labels[i])]) if pair.labels_differ else None,
                file_name(names[i]),
                class_="lines",
            ),
        )
        for i in (pair.first, pair.second)
    ]
    return tag(
        "li",
        tag("div", *sides, class_="pair"),
        tag("span", "identical" if pair.identical else "near-duplicate", class_="quiet"),
        class_="card wider",
    )
