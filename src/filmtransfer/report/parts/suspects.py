"""Photos whose label may be wrong.

A head that was built without the photo gives its label little and another class as much as that class's own photos
usually get. That is a question to a person, not a verdict: a hard photo of the right class can look the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ...formatting import capitalize, count, percent
from ..markup import join, listed, name_of_class, paragraph, tag, text
from ..pictures import Sheet
from ..subject import Judged, Subject
from . import Section
from .cards import card, cards, file_name, more, photo

LITTLE = 0.1  # the probability of its own label, at most
SHARE = 0.8  # of what photos of the other class get for it, at least
NEIGHBOURS = 5
NEEDED = 3  # one in so many of its neighbours is of the class it looks like
LOOKED = 40  # of the most doubted, more closely
MOST = 8


@dataclass(frozen=True)
class Suspect:
    """A photo whose label is doubted."""

    row: int  # among the judged
    photo: int  # among all
    label: int
    looks: int
    neighbours: int  # how many of the nearest photos are of the class it looks like
    asked: int  # of so many
    like: int | None  # the nearest photo of that class
    unlike: int | None  # the nearest other photo of its own label


def find(subject: Subject, judged: Judged) -> list[Suspect]:
    """The most suspected first."""
    usual = torch.full((judged.logits.shape[1],), torch.inf, dtype=torch.float64)
    for c in judged.truths.unique().tolist():
        usual[c] = judged.own[judged.truths == c].median()
    doubted = ~judged.right & (judged.own <= LITTLE) & (judged.sure >= SHARE * usual[judged.said])
    rows = torch.nonzero(doubted).flatten()
    rows = rows[(judged.sure - judged.own)[rows].argsort(descending=True, stable=True)][:LOOKED]
    unit = F.normalize(subject.photos.features.float(), dim=1)
    found = [_look_closer(subject, judged, unit, int(row)) for row in rows]
    found = [s for s in found if NEEDED * s.neighbours >= s.asked]  # two ways of looking say so
    return sorted(found, key=lambda s: -s.neighbours)


def _look_closer(subject: Subject, judged: Judged, unit: Tensor, row: int) -> Suspect:
    i, labels = int(judged.index[row]), subject.photos.labels
    label, looks = int(judged.truths[row]), int(judged.said[row])
    near = unit @ unit[i]
    near[i] = -2
    same = torch.tensor([d == subject.photos.digests[i] for d in subject.photos.digests])
    near[same] = -2  # a copy of it under another label proves nothing
    order = near.argsort(descending=True)
    order = order[near[order] > -2]
    nearest = labels[order[:NEIGHBOURS]]

    def first(c: int) -> int | None:
        members = order[labels[order] == c]
        return int(members[0]) if len(members) else None

    return Suspect(
        row, i, label, looks, int((nearest == looks).sum()), len(nearest), first(looks), first(label)
    )


def _twice(subject: Subject, i: int) -> bool:
    """Whether the same pixels stand under another label too: that is said elsewhere."""
    photos = subject.photos
    return any(
        digest == photos.digests[i] and photos.labels[j] != photos.labels[i]
        for j, digest in enumerate(photos.digests)
    )


def part(subject: Subject, sheet: Sheet) -> Section | None:
    judged = subject.judged
    if judged is None:
        return None
    found = [s for s in find(subject, judged) if not _twice(subject, s.photo)]
    title = "Labels to check"
    if not found:
        body = paragraph("No label looks wrong: where the classifier disagreed, it was not sure.")
        return Section("suspects", title, body, subject.basis(judged))
    how = "Built without them, the classifier" if subject.kind == "train" else "The classifier"
    intro = paragraph(
        f"{how} gives these photos’ labels hardly a chance and calls them something else about as surely as it calls that "
        "class’s own photos. Some will be wrong labels, some only hard photos. Only you can tell: look, and move the file "
        "to another folder if it is wrong."
    )
    items = []
    for s in found[:MOST]:
        compare = []
        for other, c in ((s.like, s.looks), (s.unlike, s.label)):
            if other is not None:
                note = join("nearest ", name_of_class(subject.classes[c]))
                compare.append(
                    tag(
                        "span",
                        photo(subject, sheet, other, "thumb small"),
                        tag("span", note, class_="quiet"),
                        class_="beside",
                    )
                )
        nearest = (
            f"{s.neighbours} of its {s.asked} nearest photos are "
            if s.asked > 1
            else f"{s.neighbours} nearest photo is "
        )
        items.append(
            card(
                photo(subject, sheet, s.photo, "thumb large"),
                tag("span", "labelled ", name_of_class(subject.classes[s.label])),
                tag(
                    "span",
                    "looks like ",
                    name_of_class(subject.classes[s.looks]),
                    " ",
                    tag("b", percent(float(judged.sure[s.row]), 0)),
                    class_="wrong-line",
                ),
                tag("span", nearest, name_of_class(subject.classes[s.looks]), class_="quiet"),
                file_name(subject.photos.names[s.photo]),
                tag("span", *compare, class_="compare"),
                class_="card wider",
            )
        )
    body = join(intro, cards(items), more(len(found) - MOST, "photos with doubtful labels"))
    names = listed(list(dict.fromkeys(subject.classes[s.label] for s in found)))
    advice = join(
        text(capitalize(count(len(found), "label"))),
        " may be wrong, among ",
        names,
        ". Check ",
        "it." if len(found) == 1 else "them.",
    )
    return Section("suspects", title, body, subject.basis(judged), [advice])
