"""Photos of none of the classes: how many were told, and what it cost."""

from __future__ import annotations

import torch
from torch import Tensor

from ...formatting import capitalize, count, percent
from ...training.assess.evaluation import wilson
from ..drawing import Scale, bottom, figure, line, words
from ..markup import Markup, join, name_of_class, paragraph, tag, text
from ..pictures import Sheet
from ..subject import Strangers, Subject
from . import Section
from .cards import card, cards, file_name, more

BINS = 24
MOST = 8
WIDTH, HEIGHT = 480, 300


def caught(found: Strangers) -> int:
    return int((found.scores < found.threshold).sum())


def alarms(found: Strangers) -> int:
    """Test photos of known classes that were taken for strangers."""
    return int((found.known < found.threshold).sum())


def histogram(scores: Tensor, low: float, high: float) -> Tensor:
    """Photos in each of 24 equal steps."""
    place = ((scores.double() - low) / max(high - low, 1e-12) * BINS).long().clamp(0, BINS - 1)
    return torch.bincount(place, minlength=BINS)


def part(subject: Subject, sheet: Sheet) -> Section | None:
    found = subject.strangers
    if found is None:
        return None
    strangers, known = len(found.scores), len(found.known)
    told, wrong = caught(found), alarms(found)
    low, high = wilson(told, strangers)
    intro = paragraph(
        tag("strong", f"{told} of {count(strangers, 'stranger')}"),
        f" {'was' if told == 1 else 'were'} recognised as none of the classes (with so many photos the true share may lie between {percent(low, 0)} and {percent(high, 0)}). "
        f"The price: {wrong} of {count(known, 'test photo')} of known classes {'was' if wrong == 1 else 'were'} sent away too, {percent(wrong / max(known, 1), 0)}; "
        f"the threshold was set at training for {percent(found.false_alarm, 0)}.",
    )
    inside = torch.nonzero(found.scores >= found.threshold).flatten()
    missed = inside[found.scores[inside].argsort(descending=True)].tolist()
    pieces = [intro, draw(found)]
    if missed:
        items = [
            card(
                sheet.show(found.photos.thumbnails[i], found.photos.names[i]),
                tag("span", "taken for ", name_of_class(subject.classes[int(found.photos.labels[i])])),
                file_name(found.photos.names[i]),
            )
            for i in missed[:MOST]
        ]
        pieces += [
            tag("h3", "Strangers that were let in"),
            cards(items),
            more(len(missed) - MOST, "strangers let in"),
        ]
    advice = []
    if missed:
        escaped = capitalize(count(len(missed), "stranger was", "strangers were"))
        advice = [
            text(
                f"{escaped} taken for one of the classes. If such photos will come, give them a class of their own."
            )
        ]
    basis = (
        f"{count(strangers, 'photo')} of none of the classes and {count(known, 'test photo')} of known ones"
    )
    return Section("strangers", "Photos of none of the classes", join(*pieces), basis, advice)


def draw(found: Strangers) -> Markup:
    """Two histograms back to back: known upwards, strangers downwards."""
    both = torch.cat([found.known, found.scores, torch.tensor([found.threshold])])
    low, high = float(both.min()), float(both.max())
    ups, downs = histogram(found.known, low, high), histogram(found.scores, low, high)
    middle, tall = 140.0, 92.0
    x = Scale(low, high, 16, WIDTH - 16)
    wide = (WIDTH - 32) / BINS
    pieces = []
    for i in range(BINS):
        up = tall * int(ups[i]) / max(1, int(ups.max()))
        down = tall * int(downs[i]) / max(1, int(downs.max()))
        at = 16 + i * wide
        pieces += [
            tag("rect", x=at + 1, y=middle - up, width=wide - 2, height=up, class_="box k0") if up else None,
            tag("rect", x=at + 1, y=middle, width=wide - 2, height=down, class_="box k1") if down else None,
        ]
    at = x(found.threshold)
    right = at > WIDTH / 2
    span = [(low, f"{low:.2f}"), (high, f"{high:.2f}")]
    return figure(
        WIDTH,
        HEIGHT,
        f"How near known photos and strangers were to a class; {caught(found)} of {len(found.scores)} strangers lie below the threshold.",
        *(piece for piece in pieces if piece),
        line(16, middle, WIDTH - 16, middle, "axis"),
        line(at, 30, at, 244, "threshold"),
        words(at + (-6 if right else 6), 24, "← stranger | known →", anchor="middle", class_="tick"),
        words(18, 60, f"known ({len(found.known):,})", class_="title k0 ink"),
        words(WIDTH - 18, 226, f"strangers ({len(found.scores):,})", anchor="end", class_="title k1 ink"),
        bottom(x, 244, span, "how near the nearest class is (cosine)"),
    )
