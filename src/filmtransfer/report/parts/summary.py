"""How good it is and what to do next: the first page of the letter."""

from __future__ import annotations

from ...formatting import capitalize, count, digits_for, file_size, percent, spell_out
from ..drawing import Scale, figure, line, words
from ..markup import Markup, join, link, paragraph, tag
from ..subject import Judged, Subject
from . import Section

WIDTH, HEIGHT = 480, 74
FEW = 50  # photos to judge by


def part(subject: Subject, others: list[Section]) -> Markup:
    """Without a title: that is the page's own."""
    return join(_opening(subject), _figures(subject), _next(subject, others))


def heading(subject: Subject) -> str:
    return (
        f"What “{subject.title}” has learned"
        if subject.kind == "train"
        else f"How “{subject.title}” did on the test photos"
    )


def _opening(subject: Subject) -> Markup:
    judged, classes = subject.counted, len(subject.classes)
    if judged is None:
        return paragraph(
            f"Your {count(len(subject.photos), 'photo')} of {classes} classes made a classifier. How good it is cannot be told: "
            "no class has a second photo to try it on. Add at least one more of each, or test it on other photos with ",
            tag("code", "fit evaluate"),
            ".",
            class_="lead",
        )
    result = judged.evaluation
    low, high = (
        percent(result.low, digits_for(result.images)),
        percent(result.high, digits_for(result.images)),
    )
    if subject.kind == "test":
        right = round(result.accuracy * result.images)
        return paragraph(
            f"Of {count(result.images, 'test photo')} it named ",
            tag("strong", f"{right:,} rightly"),
            f". On other photos like these, anything from {low} to {high} would be no surprise; guessing would get {percent(1 / classes, 0)}.",
            class_="lead",
        )
    in_a_hundred = (
        min(99, max(1, round(100 * result.accuracy)))
        if 0 < result.accuracy < 1
        else round(100 * result.accuracy)
    )
    return join(
        paragraph(
            f"Your {count(len(subject.photos), 'photo')} of {spell_out(classes)} classes made a classifier. Of 100 new photos like them it should name ",
            tag("strong", f"about {in_a_hundred} rightly"),
            f"; with {'only ' if result.images < FEW else ''}{count(result.images, 'photo')} to judge by, anything from {low} to {high} would be no surprise. Guessing would get {percent(1 / classes, 0)}.",
            class_="lead",
        ),
        paragraph(
            "Photos from another place, another camera or another season may be harder than yours. The true test is photos it has never met: ",
            tag("code", "fit evaluate"),
            ".",
            class_="quiet",
        ),
    )


def _figures(subject: Subject) -> Markup:
    judged, update = subject.counted, subject.update
    tiles = []
    if judged is not None:
        result = judged.evaluation
        tiles.append(
            tag(
                "div",
                tag("span", percent(result.accuracy, digits_for(result.images)), class_="number"),
                tag("span", "named rightly; the bar is the 95% interval", class_="quiet"),
                interval(judged, 1 / len(subject.classes)),
                tag("span", "Measured on ", subject.basis(judged), ".", class_="basis"),
                class_="tile main",
            )
        )
    photos = len(subject.photos)
    tiles.append(
        tag(
            "div",
            tag("span", f"{photos:,}", class_="number"),
            tag(
                "span",
                f"{'photo' if photos == 1 else 'photos'}, {len(subject.classes)} classes",
                class_="quiet",
            ),
            class_="tile",
        )
    )
    stored = file_size(subject.stored) if subject.stored else f"{update.numbers():,}"
    tiles.append(
        tag(
            "div",
            tag("span", stored, class_="number"),
            tag(
                "span",
                "learned, on top of " if subject.stored else "numbers learned, on top of ",
                update.backbone,
                class_="quiet",
            ),
            class_="tile",
        )
    )
    return tag("div", *tiles, class_="tiles")


def interval(judged: Judged, chance: float) -> Markup:
    """Accuracy on a line from 0 to 100%, its interval, and where guessing is."""
    result = judged.evaluation
    x = Scale(0, 1, 12, WIDTH - 12)
    at, low, high = x(result.accuracy), x(result.low), x(result.high)
    return figure(
        WIDTH,
        HEIGHT,
        f"Accuracy {percent(result.accuracy, digits_for(result.images))}, 95% interval {percent(result.low, digits_for(result.images))} to {percent(result.high, digits_for(result.images))}, guessing {percent(chance, 0)}",
        line(x(0), 34, x(1), 34, "track"),
        line(low, 34, high, 34, "range"),
        tag("circle", cx=at, cy=34, r=7.0, class_="dot"),
        line(x(chance), 22, x(chance), 46, "chance"),
        words(max(x(chance), 40), 64, "guessing", anchor="middle", class_="tick"),
        words(
            x(result.low),
            18,
            percent(result.low, digits_for(result.images)),
            anchor="end" if high - low < 60 else "middle",
            class_="tick",
        ),
        words(
            min(x(result.high), WIDTH - 14),
            18,
            percent(result.high, digits_for(result.images)),
            anchor="start"
            if high - low < 60 and high < WIDTH - 60
            else "end"
            if high > WIDTH - 40
            else "middle",
            class_="tick",
        ),
        class_="figure",
    )


def _next(subject: Subject, others: list[Section]) -> Markup:
    items = [
        tag("li", advice, " ", link(section.name, "See which."))
        for section in others
        for advice in section.advice
    ]
    if not items:
        return paragraph(
            "Nothing needs doing: no label looks wrong, no photo is there twice, no class lags behind."
            if subject.judged is not None
            else ""
        )
    title = capitalize(
        f"{spell_out(len(items))} thing{'' if len(items) == 1 else 's'} to do, the most useful first"
    )
    return tag("div", tag("h2", title), tag("ol", *items), class_="todo")
