"""Which classes to photograph more: those that were recognised least, and those that could not be judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...formatting import count, percent, times
from ..markup import Markup, join, listed, name_of_class, paragraph, table, tag
from ..subject import Judged, Subject
from . import Section, suspects

GOOD = 0.9  # of its photos recognised: such a class needs nothing …
SURE = 0.65  # … if they also had this probability on average
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
        return self.judged == 0 or self.right < GOOD * self.judged or self.own < SURE


def find(judged: Judged, counts: list[int], without: Sequence[int] = ()) -> list[Need]:
    """All classes, the neediest first: by how probable their own photos were, fewer photos first among equals.

    Rows ``without`` are not counted: a wrong label says nothing of its class.
    """
    counted = torch.ones(len(judged), dtype=torch.bool)
    counted[list(without)] = False
    found = []
    for c, photos in enumerate(counts):
        rows = (judged.truths == c) & counted
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
    doubted = [s.row for s in suspects.find(subject, judged)]
    needs = find(judged, subject.update.counts, doubted)
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
    if doubted:
        pieces.append(paragraph("Photos whose labels look wrong are not counted here.", class_="quiet"))
    return Section("needs", "Photograph more of these", join(*pieces), subject.basis(judged), advice)


def _told(subject: Subject, need: Need) -> Markup:
    """One class in a sentence or two."""
    missed = need.judged - need.right
    name = name_of_class(subject.classes[need.label])
    if missed == 0:
        fared = f": all {need.judged} were recognised, but not surely ({percent(need.own, 0)} on average)"
    else:
        fared = f": {missed} of {need.judged} {'was' if missed == 1 else 'were'} not recognised"
    other = need.taken_for
    if other is None:
        return join(tag("strong", name), fared, ".")
    rival = name_of_class(subject.classes[other])
    close = (
        join("; ", rival, " is the nearest rival")
        if need.taken == 0
        else join(f", {times(need.taken)} taken for ", rival)
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
            _bar(need),
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


def _bar(need: Need) -> Markup:
    share = need.own
    inside = tag("span", style=f"width:{100 * share:.0f}%", class_="fill low" if need.wanting else "fill")
    drawn = tag("span", inside, class_="bar", aria_hidden="true")
    return tag("span", drawn, tag("span", percent(share, 0), class_="beside-bar"), class_="together")
