"""Out-of-distribution photos, which show none of the classes: how many are rejected, and at what cost."""

from __future__ import annotations

import numpy as np

from ...formatting import capitalize, count, percent, percent_interval
from ...training.assess.evaluation import wilson
from ..drawing import Scale, figure, horizontal_axis, line, svg_text
from ..markup import Markup, class_name, join, paragraph, tag, text
from ..pictures import EmbeddedPictures
from ..report_data import OODPhotos, ReportData
from . import Section
from .cards import card, card_list, file_name, hidden_count

BINS = 24
MAX_SHOWN = 8
WIDTH, HEIGHT, EDGE = 480, 300, 30


def rejected(ood: OODPhotos) -> int:
    """Return the number of out-of-distribution photos that are rejected."""
    return int((ood.scores < ood.threshold).sum())


def false_alarms(ood: OODPhotos) -> int:
    """Return the number of test photos of known classes that are rejected."""
    return int((ood.known_scores < ood.threshold).sum())


def histogram(scores: np.ndarray, low: float, high: float) -> np.ndarray:
    """Return the number of scores in each of 24 bins of equal width."""
    bins = ((scores - low) / max(high - low, 1e-12) * BINS).astype(int).clip(0, BINS - 1)
    return np.bincount(bins, minlength=BINS)


def section(data: ReportData, pictures: EmbeddedPictures) -> Section | None:
    """Return the section on out-of-distribution photos, if there are any."""
    ood = data.ood
    if ood is None:
        return None
    total, known = len(ood.scores), len(ood.known_scores)
    hits, alarms = rejected(ood), false_alarms(ood)
    low, high = percent_interval(*wilson(hits, total))
    intro = paragraph(
        tag("strong", f"{hits} of {count(total, 'photo')} of something else"),
        f" {'was' if hits == 1 else 'were'} rejected as none of the classes; with so many photos, the true share may be "
        f"anywhere from {low} to {high}. The cost: {alarms} of {count(known, 'test photo')} of "
        f"known classes {'was' if alarms == 1 else 'were'} rejected too, {percent(alarms / max(known, 1), 0)}. "
        f"The threshold was set in training for {percent(ood.false_alarm, 0)}.",
    )
    pieces = [intro, draw(ood)]
    advice: list[Markup] = []
    accepted = np.flatnonzero(ood.scores >= ood.threshold)
    missed = accepted[np.argsort(-ood.scores[accepted], kind="stable")].tolist()
    if missed:
        items = [
            card(
                pictures.show(ood.photos.thumbnails[i], ood.photos.names[i]),
                tag("span", class_name(data.classes[int(ood.photos.labels[i])])),
                file_name(ood.photos.names[i]),
            )
            for i in missed[:MAX_SHOWN]
        ]
        pieces += [
            tag("h3", "Not rejected, with the predicted class"),
            card_list(items),
            hidden_count(len(missed) - MAX_SHOWN, "photo of something else", "photos of something else"),
        ]
        subject = capitalize(
            count(len(missed), "photo of something else was", "photos of something else were")
        )
        advice.append(
            text(f"{subject} not rejected. If you expect such photos, give them a class of their own.")
        )
    basis = f"{count(total, 'photo')} of none of the classes and {count(known, 'test photo')} of known ones"
    title, term = "Photos of something else", "out-of-distribution"
    return Section(term, title, join(*pieces), basis, advice, term)


def draw(ood: OODPhotos) -> Markup:
    """Draw two histograms of the scores back to back: known classes upwards, out-of-distribution downwards."""
    both = np.concatenate([ood.known_scores, ood.scores, [ood.threshold]])
    low, high = float(both.min()), float(both.max())
    upper, lower = histogram(ood.known_scores, low, high), histogram(ood.scores, low, high)
    middle, tall = 140.0, 92.0
    x = Scale(low, high, EDGE, WIDTH - EDGE)
    width = (WIDTH - 2 * EDGE) / BINS
    bars = []
    for i in range(BINS):
        left = EDGE + i * width + 1
        for bins, above, colour in ((upper, 1, "k0"), (lower, 0, "k1")):
            height = tall * int(bins[i]) / max(1, int(bins.max()))
            if height:
                y = middle - above * height
                bars.append(tag("rect", x=left, y=y, width=width - 2, height=height, class_=f"box {colour}"))
    threshold = x(ood.threshold)
    label_x = min(max(threshold, 80), WIDTH - 80)
    ticks = [(end, f"{end:.1f}".replace("-", "−")) for end in (low, high)]
    return figure(
        WIDTH,
        HEIGHT,
        f"Scores of photos of known classes and of something else; {rejected(ood)} of {len(ood.scores)} photos of "
        "something else are below the threshold.",
        *bars,
        line(EDGE, middle, WIDTH - EDGE, middle, "axis"),
        line(threshold, 30, threshold, 244, "threshold"),
        svg_text(label_x, 24, "← rejected | accepted →", anchor="middle", class_="tick"),
        svg_text(EDGE, 60, f"known classes ({len(ood.known_scores):,})", class_="title k0 ink"),
        svg_text(
            WIDTH - EDGE, 226, f"something else ({len(ood.scores):,})", anchor="end", class_="title k1 ink"
        ),
        horizontal_axis(x, 244, ticks, "similarity to the known classes (score)"),
    )
