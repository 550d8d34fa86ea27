"""Would more photos help? The head built again from 1, 2, … photos of each class, and tried on photos left out of it.

Only the head is built again, which takes milliseconds; what fine-tuning did to the backbone stays as it is. Draws use
the same test photos for every number of shots, so that the curve shows the shots and not the luck of the draw.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from ...formatting import count, percent
from ...heads import GaussianHead, SingularError
from ...seeding import make_generator, permutation
from ..drawing import Scale, bottom, figure, left, percents, polygon, polyline
from ..markup import Markup, join, paragraph, tag
from ..subject import Subject
from . import Section

SHOTS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50)
LINEAR_ITERATIONS = 30  # of a head that is solved for step by step: near enough for a curve
CLEAR = 0.02  # a rise that is worth photographs, if there are photos enough to see it
WIDTH, HEIGHT = 480, 300


@dataclass(frozen=True)
class Curve:
    """Accuracy by shots: the mean of some draws, the unluckiest and the luckiest."""

    shots: list[int]
    mean: list[float]
    low: list[float]
    high: list[float]
    draws: int
    images: int  # tested in each draw


@dataclass(frozen=True)
class Trial:
    """Photos to build from and photos to try on, as places among the features."""

    pool: Tensor  # in the order in which they are taken
    tried: Tensor


def curve(head: GaussianHead, features: Tensor, labels: Tensor, tested: Tensor, *, seed: int) -> Curve | None:
    """By left-out support photos: those among ``tested`` ((N) bool) whose class has another."""
    counts = torch.bincount(labels)
    able = tested & (counts[labels] > 1)
    if not bool(able.any()):
        return None
    draws, folds = _effort(len(labels), head)
    trials = [_trials(labels, able, folds, make_generator(seed, "shots", draw)) for draw in range(draws)]
    largest = max(int(torch.bincount(labels[t.pool]).max()) for trial in trials for t in trial)
    return _measure(head, features, labels, trials, largest, int(able.sum()))


def test_curve(
    head: GaussianHead, support: Tensor, labels: Tensor, queries: Tensor, truths: Tensor, *, seed: int
) -> Curve | None:
    """By test photos."""
    draws, _ = _effort(len(labels), head)
    features, places = torch.cat([support, queries]), torch.cat([labels, truths])
    tried = torch.arange(len(labels), len(places))
    trials = [
        [Trial(permutation(len(labels), make_generator(seed, "shots", draw)), tried)] for draw in range(draws)
    ]
    return _measure(head, features, places, trials, int(torch.bincount(labels).max()), len(truths))


def _effort(photos: int, head: GaussianHead) -> tuple[int, int]:
    """Draws and folds: as many as a second or so allows."""
    if head.name == "linear":
        return 2, 2
    return (5, 4) if photos <= 150 else (3, 3) if photos <= 500 else (2, 2)


def _trials(labels: Tensor, able: Tensor, folds: int, generator: torch.Generator) -> list[Trial]:
    """Every photo that may be tried is tried once, and no class loses all of its photos."""
    order = permutation(len(labels), generator)
    place = torch.full((len(labels),), -1)
    for c in labels[able].unique().tolist():
        members = order[(labels[order] == c) & able[order]]
        spare = min(folds, len(members)) if int((labels == c).sum()) == len(members) else folds
        place[members] = torch.arange(len(members)) % max(spare, 2)
    found = [Trial(order[place[order] != f], order[place[order] == f]) for f in range(folds)]
    return [trial for trial in found if len(trial.tried)]


@torch.no_grad()
def _measure(
    head: GaussianHead, features: Tensor, labels: Tensor, trials: list[list[Trial]], largest: int, images: int
) -> Curve | None:
    fresh = copy.deepcopy(head).cpu()
    if hasattr(fresh, "max_iterations"):
        fresh.max_iterations = LINEAR_ITERATIONS  # type: ignore[assignment]
    grid = SHOTS if head.name != "linear" else SHOTS[1::2]
    shots = sorted({1, largest} | {k for k in grid if k < largest})
    if len(shots) > 7 or largest > 60:
        shots = sorted(
            {1, 2, 5, 10, 20, *([50] if largest >= 100 else []), min(largest, 100)}
            & set(range(1, largest + 1))
        )
    kept, rows = [], []
    for k in shots:
        try:
            rows.append([_accuracy(fresh, features, labels, draw, k) for draw in trials])
            kept.append(k)
        except SingularError:
            continue
    if not kept:
        return None
    return Curve(
        kept,
        [sum(row) / len(row) for row in rows],
        [min(row) for row in rows],
        [max(row) for row in rows],
        len(trials),
        images,
    )


def _accuracy(head: GaussianHead, features: Tensor, labels: Tensor, draw: list[Trial], shots: int) -> float:
    right = total = 0
    for trial in draw:
        built = first_of_each(labels, trial.pool, shots)
        logits = head.configure(features[built], labels[built]).logits(features[trial.tried])
        right += int((logits.argmax(1) == labels[trial.tried]).sum())
        total += len(trial.tried)
    return right / total


def first_of_each(labels: Tensor, pool: Tensor, shots: int) -> Tensor:
    """The first ``shots`` of the pool of each class (all, if it has fewer)."""
    taken: dict[int, int] = {}
    chosen = []
    for i, c in zip(pool.tolist(), labels[pool].tolist(), strict=True):
        if taken.setdefault(c, 0) < shots:
            taken[c] += 1
            chosen.append(i)
    return torch.tensor(chosen)


def part(subject: Subject) -> Section | None:
    learned, judged = subject.learned, subject.counted
    title = "Would more photos help?"
    if learned is None:
        body = paragraph(
            "This needs the training photos’ features, which the update file does not keep. Train with ",
            tag("code", "--keep-statistics"),
            " to see it here.",
        )
        return Section("shots", title, body)
    if judged is None:
        return None
    if subject.kind == "train":
        found = curve(
            subject.head, learned.features, learned.labels, learned.tested, seed=subject.update.seed
        )
    else:
        found = test_curve(
            subject.head,
            learned.features,
            learned.labels,
            subject.photos.features,
            judged.truths,
            seed=subject.update.seed,
        )
    if found is None or len(found.shots) < 2:
        body = paragraph(
            "With so few photos of each class there is no curve to draw: add a third photo to some."
        )
        return Section("shots", title, body)
    note = paragraph(
        f"The line is the mean of {found.draws} random choices of the photos to learn from, the band goes from the unluckiest to the luckiest. "
        + (
            "Only the last layer is built anew each time; the fine-tuned backbone stays."
            if subject.moved
            else ""
        ),
        class_="quiet",
    )
    unequal = max(subject.update.counts) > min(subject.update.counts)
    if unequal:
        note = join(note, paragraph("A class with fewer photos than that gives all it has.", class_="quiet"))
    return Section("shots", title, join(paragraph(_verdict(found)), draw(found), note), subject.basis(judged))


def _verdict(found: Curve) -> str:
    """The end of the curve in words: what the last doubling brought."""
    last, end = found.shots[-1], found.mean[-1]
    before = max((i for i, k in enumerate(found.shots) if k <= last / 2), default=0)
    k, rise = found.shots[before], end - found.mean[before]
    went = f"From {count(k, 'photo')} of each class to {last}, accuracy went from {percent(found.mean[before], 0)} to {percent(end, 0)}."
    clear = max(CLEAR, 1 / found.images)
    if end >= 0.995:
        return f"{went} There is nothing left to gain by this measure; harder photos would tell more."
    if rise > clear:
        return f"{went} The curve still rises: twice as many photos may well help again."
    if rise < -clear:
        return f"{went} More photos did not help: look for wrong labels, or photos that show something else."
    return f"{went} As far as {found.images} photos can tell, the curve is flat by now: more of the same kind would help little, photos of another kind may."


def draw(found: Curve) -> Markup:
    lowest = max(0.0, min(found.low) - 0.05)
    floor = 0.0 if lowest < 0.5 else 0.5
    x = Scale(0, len(found.shots) - 1, 70, WIDTH - 24)  # evenly, so that the first shots have room
    y = Scale(floor, 1, HEIGHT - 52, 36)
    at = list(range(len(found.shots)))
    band = [(x(i), y(v)) for i, v in zip(at, found.high, strict=True)]
    band += [(x(i), y(v)) for i, v in zip(reversed(at), reversed(found.low), strict=True)]
    middle = [(x(i), y(v)) for i, v in zip(at, found.mean, strict=True)]
    dots = [
        join(
            tag("circle", cx=px, cy=py, r=4.0, class_="dot"),
            tag("text", percent(v, 0), x=px, y=_beside(py, y(h)), text_anchor="middle", class_="value"),
        )
        for (px, py), v, h in zip(middle, found.mean, found.high, strict=True)
    ]
    label = "Accuracy by photos of each class: " + ", ".join(
        f"{k}: {percent(v, 0)}" for k, v in zip(found.shots, found.mean, strict=True)
    )
    return figure(
        WIDTH,
        HEIGHT,
        label,
        left(y, 58, WIDTH - 12, percents(floor, 1.0), "photos named rightly"),
        bottom(
            Scale(0, len(at) - 1, x.start, x.end),
            HEIGHT - 52,
            [(i, str(k)) for i, k in zip(at, found.shots, strict=True)],
            "photos of each class to learn from",
        ),
        polygon(band, "band"),
        polyline(middle, "curve"),
        *dots,
    )


def _beside(py: float, top: float) -> float:
    """Above the band, unless that is off the figure; then below the dot."""
    return top - 8 if top > 40 else py + 22
