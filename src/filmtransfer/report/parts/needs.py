"""Which classes to photograph more: those that were recognised least, and those that could not be judged."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..markup import Markup, join, listed, name_of_class, paragraph, table, tag
from ..subject import Judged, Subject
from ..words import count, percent
from . import Section

GOOD = 0.85  # the mean probability of a class's own photos, from which on it needs nothing
MOST = 12
TOLD = 3


@dataclass(frozen=True)
class Need:
    """How one class fared."""

    label: int
    photos: int  # learned from
    judged: int
    right: int
    own: float  # mean probability of its own photos; 0 if there is nothing to judge by
    taken_for: int | None  # the class that took the most of its photos, or else the most of its probability
    taken: int  # photos

    @property
    def wanting(self) -> bool:
        return self.judged == 0 or self.own < GOOD


def find(judged: Judged, counts: list[int]) -> list[Need]:
    """All classes, the neediest first: by how probable their own photos were, fewer photos first among equals."""
    found = []
    for c, photos in enumerate(counts):
        rows = judged.truths == c
        total = int(rows.sum())
        if total == 0:
            found.append(Need(c, photos, 0, 0, 0.0, None, 0))
            continue
        said = torch.bincount(judged.said[rows], minlength=len(counts))
        right = int(said[c])
        said[c] = -1
        chance = judged.probabilities[rows].mean(0)
        own = float(chance[c])
        chance[c] = -1
        other = int(said.argmax()) if int(said.max()) > 0 else int(chance.argmax())
        found.append(Need(c, photos, total, right, own, other, max(0, int(said[other]))))
    return sorted(found, key=lambda need: (need.own, need.photos, need.label))


def part(subject: Subject) -> Section | None:
    judged = subject.judged
    if judged is None:
        return None
    needs = find(judged, subject.update.counts)
    if subject.kind == "test":
        needs = [need for need in needs if need.judged]
    wanting = [need for need in needs if need.wanting]
    alone = [need for need in needs if need.judged == 0]
    pieces: list[Markup] = []
    advice: list[Markup] = []
    if wanting:
        first = [need for need in wanting if need.judged][:TOLD]
        pieces += (
            [tag("ul", *(tag("li", _told(subject, need)) for need in first), class_="told")] if first else []
        )
        if alone:
            names = listed([subject.classes[need.label] for need in alone], 6)
            has = (
                "has one photo and cannot be judged"
                if len(alone) == 1
                else "have one photo each and cannot be judged"
            )
            pieces.append(
                paragraph(names, f" {has}: a second photo would show how well it goes, five would help.")
            )
        chosen = [subject.classes[need.label] for need in wanting[:TOLD]]
        advice = [join("Photograph more of ", listed(chosen), ".")]
    else:
        pieces.append(
            paragraph(
                "No class stands out: all of them were recognised well. For a harder test, add photos from other places and in other light."
            )
        )
    pieces.append(_table(subject, needs))
    return Section("needs", "Photograph more of these", join(*pieces), subject.basis(judged), advice)


def _told(subject: Subject, need: Need) -> Markup:
    """One class in a sentence or two."""
    missed = need.judged - need.right
    name = name_of_class(subject.classes[need.label])
    if missed == 0:
        fared = f": all {need.judged} were recognised, but not surely ({percent(need.own)} on average)"
    else:
        fared = f": {missed} of {need.judged} {'was' if missed == 1 else 'were'} not recognised"
    other = need.taken_for
    if other is None:
        return join(tag("strong", name), fared, ".")
    rival = name_of_class(subject.classes[other])
    close = (
        join("; ", rival, " is the nearest rival")
        if need.taken == 0
        else join(", ", count(need.taken, "time"), " taken for ", rival)
    )
    advise = join(". Photograph both where they look most alike.")
    return join(tag("strong", name), fared, close, advise)


def _table(subject: Subject, needs: list[Need]) -> Markup:
    def row(need: Need) -> list[str | int | None]:
        if need.judged == 0:
            return [name_of_class(subject.classes[need.label]), need.photos, "–", "–", ""]
        rival = (
            ""
            if not need.taken or need.taken_for is None
            else join(name_of_class(subject.classes[need.taken_for]), f" ({need.taken})")
        )
        return [
            name_of_class(subject.classes[need.label]),
            need.photos,
            f"{need.right} of {need.judged}",
            _bar(need.own),
            rival,
        ]

    learned = "photos" if subject.kind == "train" else "learned from"
    heads: list[str | int | None] = ["class", learned, "recognised", "how surely", "taken for"]
    top = table(heads, [row(need) for need in needs[:MOST]], "Classes, the neediest first", (1, 2))
    if len(needs) <= MOST:
        return top
    rest = table(heads, [row(need) for need in needs[MOST:]], "The other classes", (1, 2))
    return join(
        top, tag("details", tag("summary", f"The other {count(len(needs) - MOST, 'class', 'classes')}"), rest)
    )


def _bar(share: float) -> Markup:
    inside = tag("span", style=f"width:{100 * share:.0f}%", class_="fill" if share >= GOOD else "fill low")
    return join(
        tag("span", inside, class_="bar", aria_hidden="true"),
        tag("span", percent(share), class_="beside-bar"),
    )
