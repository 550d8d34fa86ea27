"""Photos that are nearly the same: copies, and shots of one moment.

Two photos are twins if the angle between their features is a small fraction of what photos of a class have to their
nearest neighbour; the same pixels always are. Under two labels a twin misleads; in the test folder and among the
training photos it flatters; under one label it is merely a photo less than it seems.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ...formatting import capitalize, count
from ..markup import Markup, join, name_of_class, paragraph, tag, text
from ..pictures import Sheet
from ..subject import Subject
from . import Section
from .cards import cards, file_name, more, photo

NEAR = 0.2  # of the usual distance to the nearest neighbour
IDENTICAL = 1e-6  # 1 − cos: no more than rounding
SPREAD = 4  # photos of a class, from which on it has a distance of its own
COMPARED = 5000  # photos, at most
MOST = 8


@dataclass(frozen=True)
class Twins:
    """Two photos, first < second, that are nearly the same."""

    first: int
    second: int
    same: bool  # the very pixels
    across: bool  # under two labels


def find(features: Tensor, labels: Tensor, digests: list[str]) -> list[Twins]:
    """The urgent ones first: under two labels, then the same pixels, then the nearest."""
    count = min(len(labels), COMPARED)
    if count < 2:
        return []
    unit = F.normalize(features[:count].float(), dim=1)
    distances = torch.cat([1 - part @ unit.T for part in unit.split(1024)])
    distances.fill_diagonal_(torch.inf)
    usual = _usual(distances.min(1).values, labels[:count])
    near = (distances <= IDENTICAL) | (distances < NEAR * torch.minimum(usual[:, None], usual[None]))
    places: dict[str, int] = {}
    found: dict[tuple[int, int], tuple[bool, float]] = {}
    for i, j in torch.nonzero(near).tolist():
        if i < j:
            found[i, j] = (float(distances[i, j]) <= IDENTICAL, float(distances[i, j]))
    for j, digest in enumerate(digests):  # of all photos
        i = places.setdefault(digest, j)
        if digest and i != j:
            found[i, j] = (True, 0.0)
    twins = [(Twins(i, j, same, bool(labels[i] != labels[j])), far) for (i, j), (same, far) in found.items()]
    twins.sort(key=lambda t: (not t[0].across, not t[0].same, t[1], t[0].first, t[0].second))
    return [twin for twin, _ in twins]


def _usual(nearest: Tensor, labels: Tensor) -> Tensor:
    """How far a photo's nearest neighbour usually is (N): the median of all, or what most of its class have if that is less.

    Photos of the sea are more alike than photos of cats without being copies.
    """
    usual = nearest.median().expand(len(labels)).clone()
    for c in labels.unique().tolist():
        members = labels == c
        if int(members.sum()) >= SPREAD:
            usual[members] = torch.minimum(usual[members], nearest[members].quantile(0.75))
    return usual


def leaked(learned: Tensor, features: Tensor) -> list[tuple[int, int]]:
    """Test photos that were also learned from: (test, training)."""
    towards = F.normalize(learned.float(), dim=1)
    pairs = []
    for begin in range(0, len(features), 1024):
        near, which = (F.normalize(features[begin : begin + 1024].float(), dim=1) @ towards.T).max(1)
        rows = torch.nonzero(1 - near <= IDENTICAL).flatten()
        pairs += [(begin + int(row), int(which[row])) for row in rows]
    return pairs


def part(subject: Subject, sheet: Sheet) -> Section | None:
    photos = subject.photos
    found = find(photos.features, photos.labels, photos.digests)
    pieces: list[Markup] = []
    advice: list[Markup] = []
    if subject.kind == "test" and subject.learned is not None:
        both = leaked(subject.learned.features, photos.features)
        if both:
            names = [f"{photos.names[i]} is {subject.learned.names[j]}" for i, j in both[:MOST]]
            pieces += [
                tag("h3", "Test photos that were learned from"),
                paragraph(
                    tag("strong", capitalize(count(len(both), "test photo is", "test photos are"))),
                    " also among the training photos. They flatter the figure at the top: take them out of the test folder.",
                ),
                tag("ul", *(tag("li", file_name(name)) for name in names)),
                more(len(both) - MOST, "such photos"),
            ]
            advice.append(
                text(
                    f"{capitalize(count(len(both), 'test photo was', 'test photos were'))} also learned from, which flatters the result. Take them out."
                )
            )
    urgent = [t for t in found if t.across]
    if urgent:
        pieces += [
            tag("h3", "Under two labels"),
            paragraph(
                "Nearly the same photo stands under two classes. One of the labels must be wrong, or the photo shows both: keep it in one class, or in neither."
            ),
            cards([_pair(subject, sheet, t) for t in urgent[:MOST]]),
            more(len(urgent) - MOST, "such pairs"),
        ]
        advice.append(
            text(
                f"{capitalize(count(len(urgent), 'photo stands', 'photos stand'))} under two labels. Keep one."
            )
        )
    plain = [t for t in found if not t.across]
    if plain:
        does = "They count twice where they teach once" if subject.kind == "train" else "They count twice"
        guess = (
            " and make the classifier look better than it is, since a left-out photo’s twin stays in."
            if subject.kind == "train"
            else "."
        )
        pieces += [
            tag("h3", "Twice under one label"),
            paragraph(f"{does}{guess} Keep the better one of each pair."),
            cards([_pair(subject, sheet, t) for t in plain[:MOST]]),
            more(len(plain) - MOST, "pairs"),
        ]
        advice.append(
            text(
                f"{capitalize(count(len(plain), 'pair'))} of photos {'is' if len(plain) == 1 else 'are'} nearly the same. Keep one of each."
            )
        )
    if not pieces:
        pieces = [paragraph("No two photos are copies of each other.")]
    basis = f"all {len(photos):,} photos, compared by what the classifier sees in them"
    if len(photos) > COMPARED:
        basis = f"the first {COMPARED:,} of {len(photos):,} photos, and on all of them for equal pixels"
    return Section("twins", "Photos that are nearly the same", join(*pieces), basis, advice)


def _pair(subject: Subject, sheet: Sheet, twins: Twins) -> Markup:
    names, labels = subject.photos.names, subject.photos.labels
    sides = [
        tag(
            "div",
            photo(subject, sheet, i),
            tag(
                "div",
                name_of_class(subject.classes[int(labels[i])]) if twins.across else None,
                file_name(names[i]),
                class_="says",
            ),
        )
        for i in (twins.first, twins.second)
    ]
    return tag(
        "li",
        tag("div", *sides, class_="pair"),
        tag("span", "the same picture" if twins.same else "nearly the same", class_="quiet"),
        class_="card wider",
    )
