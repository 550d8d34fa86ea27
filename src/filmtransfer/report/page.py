"""The page: a letter that begins with what matters most. Self-contained, no script, nothing from elsewhere."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from ..files import write_atomically
from .markup import Markup, join, link, paragraph, tag
from .parts import (
    Section,
    confusion,
    facts,
    film,
    mistakes,
    needs,
    plane,
    reliability,
    shots,
    strangers,
    summary,
    suspects,
    twins,
)
from .pictures import Sheet
from .subject import Subject


def write_report(path: str | Path, subject: Subject) -> int:
    """Write the report, whole or not at all; returns its size in bytes."""
    content = page(subject).encode()
    write_atomically(path, content)
    return len(content)


def page(subject: Subject) -> str:
    """The whole page."""
    sheet = Sheet()
    sections = parts(subject, sheet)
    title = summary.heading(subject)
    opening = summary.part(subject, sections)
    head = tag(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        tag("style", Markup(files("filmtransfer.report").joinpath("style.css").read_text("utf-8"))),
    )
    body = tag(
        "body",
        sheet.definitions(),
        tag(
            "main",
            tag("header", tag("h1", title)),
            opening,
            tag(
                "nav",
                tag("ul", *(tag("li", link(s.name, s.title)) for s in sections)),
                aria_label="In this report",
            ),
            *(_section(s) for s in sections),
            tag(
                "footer",
                paragraph(
                    "Made by filmtransfer. This page holds all it shows and asks nothing of the network; the small photos in it are yours: share it as you would share them.",
                    class_="quiet",
                ),
            ),
        ),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def parts(subject: Subject, sheet: Sheet) -> list[Section]:
    """All parts that have something to say, the most useful first."""
    found = [
        suspects.part(subject, sheet),
        twins.part(subject, sheet),
        needs.part(subject),
        strangers.part(subject, sheet),
        mistakes.part(subject, sheet),
        confusion.part(subject, sheet),
        shots.part(subject),
        plane.part(subject, sheet),
        reliability.part(subject),
        film.part(subject),
        facts.part(subject),
    ]
    return [section for section in found if section is not None]


def _section(section: Section) -> Markup:
    basis = paragraph("Measured on ", section.basis, ".", class_="basis") if section.basis else None
    return tag(
        "section",
        tag("h2", section.title, id=f"{section.name}-title"),
        join(section.body, basis),
        id=section.name,
        aria_labelledby=f"{section.name}-title",
    )
