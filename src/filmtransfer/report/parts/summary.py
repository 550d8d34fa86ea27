"""The top of the report: how accurate the classifier is, and what to do next."""

from __future__ import annotations

from ...formatting import (
    MANY_IMAGES,
    MeasuredAccuracy,
    accuracy_figures,
    capitalize,
    count,
    file_size,
    percent,
    spell_out,
)
from ..drawing import Scale, figure, line, svg_text
from ..markup import Markup, join, link, paragraph, tag
from ..report_data import ReportData
from . import Section

WIDTH, HEIGHT = 480, 74
FEW_PHOTOS = 50  # for an estimate


def summary(data: ReportData, sections: list[Section]) -> Markup:
    """Return the opening paragraph, the main figures and the advice of all sections."""
    return join(_opening(data), _deleted(data), _tiles(data), _advice(data, sections))


def heading(data: ReportData) -> str:
    """Return the title of the page."""
    return (
        f"What “{data.title}” has learned"
        if data.kind == "train"
        else f"How “{data.title}” did on the test photos"
    )


def _opening(data: ReportData) -> Markup:
    result = data.accuracy
    chance = f"Guessing would get {percent(1 / len(data.classes), 0)}."
    if result is None:
        return paragraph(
            f"{_made(data)} Its accuracy is unknown: no class has a second photo to test it on. Add at least one more photo "
            "of each class, or test it on other photos with ",
            tag("code", "fit evaluate"),
            ".",
            class_="lead",
        )
    _, low, high = accuracy_figures(result)
    if data.kind == "test":
        return paragraph(
            "It classified ",
            tag("strong", _outcome(result, "test photo")),
            f". On other photos like these its accuracy may be anywhere from {low} to {high}. {chance}",
            class_="lead",
        )
    few = "With so few photos, its" if result.images < FEW_PHOTOS else "Its"
    bias = "" if data.unseen else " Fine-tuning had seen these photos, so expect less on new ones."
    return join(
        paragraph(
            f"{_made(data)} It classified ",
            tag("strong", _outcome(result, "photo", " that it was tested on")),
            f". {few} accuracy on new photos may be anywhere from {low} to {high}.{bias} {chance}",
            class_="lead",
        ),
        paragraph(
            "Photos from another place, another camera or another season may be harder than yours. The best test is photos "
            "it has never seen: ",
            tag("code", "fit evaluate"),
            ".",
            class_="quiet",
        ),
    )


def _made(data: ReportData) -> str:
    """Return the sentence about the photos behind the classifier; edits have changed those of training."""
    photos = f"your {count(len(data.photos), 'photo')} of {spell_out(len(data.classes))} classes"
    if data.update.edits:
        return f"This classifier was edited after training and is now made of {photos}."
    return f"A classifier was trained on {photos}."


def _deleted(data: ReportData) -> Markup:
    """Say what the report is based on if photos have been deleted since the training."""
    if not data.deleted:
        return Markup("")
    photos = len(data.photos)
    if data.deleted == photos:
        which = "The photos that it was trained on are not stored any more"
    else:
        which = capitalize(
            count(data.deleted, "of the training photos has", "of the training photos have")
            + " been deleted since"
        )
    return paragraph(
        f"{which}. This report is based on the features that the classifier keeps of all {count(photos, 'photo')}; "
        "a photo that was deleted is a blank square.",
        class_="quiet",
    )


def _outcome(result: MeasuredAccuracy, noun: str, which: str = "") -> str:
    """Return how many photos were classified correctly, as the end of "It classified …"."""
    total, correct = result.images, round(result.accuracy * result.images)
    if total == 1:
        return f"the only {noun}{which} {'correctly' if correct else 'wrongly'}"
    if correct == total:
        return f"all {total:,} {noun}s{which} correctly"
    share = "none" if not correct else f"{correct:,}" if total < MANY_IMAGES else accuracy_figures(result)[0]
    return f"{share} of the {total:,} {noun}s{which} correctly"


def _tiles(data: ReportData) -> Markup:
    photos, stored = len(data.photos), data.file_bytes
    tiles = [
        _tile(f"{photos:,}", f"{'photo' if photos == 1 else 'photos'}, {len(data.classes)} classes"),
        _tile(
            file_size(stored) if stored else f"{data.update.stored_parameters():,}",
            f"{'update file' if stored else 'trained parameters'}, for the backbone {data.update.backbone}",
        ),
    ]
    result = data.accuracy
    if data.headline is not None and result is not None:
        basis = tag("span", "Measured on ", data.basis(data.headline), ".", class_="basis")
        caption = "accuracy; the bar is the 95% confidence interval"
        bar = interval(result, 1 / len(data.classes))
        tiles.insert(0, _tile(accuracy_figures(result)[0], caption, bar, basis, class_="tile main"))
    return tag("div", *tiles, class_="tiles")


def _tile(number: str, caption: str, *more: Markup, class_: str = "tile") -> Markup:
    lines = tag("span", number, class_="number"), tag("span", caption, class_="quiet")
    return tag("div", *lines, *more, class_=class_)


def interval(result: MeasuredAccuracy, chance: float) -> Markup:
    """Draw the accuracy and its interval on a line from 0 to 100%, with the accuracy of guessing."""
    x = Scale(0, 1, 12, WIDTH - 12)
    low, high = x(result.low), x(result.high)
    narrow = high - low < 60  # the labels would overlap if they were centred
    high_anchor = "start" if narrow and high < WIDTH - 60 else "end" if high > WIDTH - 40 else "middle"
    low_end = (
        min(low, WIDTH - 74) if narrow and high_anchor == "end" else low
    )  # beside the label of the upper end
    accuracy_text, low_text, high_text = accuracy_figures(result)
    return figure(
        WIDTH,
        HEIGHT,
        f"Accuracy {accuracy_text}, 95% interval {low_text} to {high_text}, guessing {percent(chance, 0)}",
        line(x(0), 34, x(1), 34, "track"),
        line(low, 34, high, 34, "range"),
        tag("circle", cx=x(result.accuracy), cy=34, r=7.0, class_="dot"),
        line(x(chance), 22, x(chance), 46, "chance"),
        svg_text(max(x(chance), 40), 64, "guessing", anchor="middle", class_="tick"),
        svg_text(low_end, 18, low_text, anchor="end" if narrow else "middle", class_="tick"),
        svg_text(min(high, WIDTH - 14), 18, high_text, anchor=high_anchor, class_="tick"),
        class_="figure",
    )


def _advice(data: ReportData, sections: list[Section]) -> Markup:
    items = [
        tag("li", advice, " ", link(section.anchor, "See which."))
        for section in sections
        for advice in section.advice
    ]
    if not items:
        return paragraph(
            "Nothing to do: no label looks wrong, there are no near-duplicates, and no class is clearly weaker than the others."
            if data.predictions is not None
            else ""
        )
    things = "thing" if len(items) == 1 else "things"
    title = capitalize(f"{spell_out(len(items))} {things} to do, the most useful first")
    return tag("div", tag("h2", title), tag("ol", *items), class_="todo")
