"""The page: sections in the order of their usefulness. Self-contained, without scripts, loading nothing."""

from __future__ import annotations

from pathlib import Path

from ..files import write_atomically
from .markup import Markup, document, join, link, paragraph, tag
from .parts import (
    Section,
    confusion,
    facts,
    film,
    label_issues,
    learning_curve,
    mistakes,
    near_duplicates,
    out_of_distribution,
    projection,
    reliability,
    weak_classes,
)
from .parts.summary import heading, summary
from .pictures import EmbeddedPictures
from .report_data import ReportData

TRAINING_REPORT = '<main data-report="train">'  # in the page


def write_report(path: str | Path, data: ReportData) -> int:
    """Write the report atomically and return its size in bytes."""
    content = page(data).encode()
    write_atomically(path, content)
    return len(content)


def page(data: ReportData) -> str:
    """Return the complete HTML page."""
    pictures = EmbeddedPictures(photos=data.photos)
    content = sections(data, pictures)
    if data.kind == "train":
        pictures.embed_all()
    title = heading(data)
    contents = tag("ul", *(tag("li", link(section.anchor, section.title)) for section in content))
    footer = paragraph(
        "Made by filmtransfer. This page is complete in itself and loads nothing from the network. The small photos in it are "
        "yours: share it as you would share them.",
        class_="quiet",
    )
    return document(
        title,
        "filmtransfer.report",
        pictures.definitions(),
        tag(
            "main",
            tag("header", tag("h1", title)),
            summary(data, content),
            tag("nav", contents, aria_label="In this report"),
            *(_render(section) for section in content),
            tag("footer", footer),
            data_report=data.kind,
        ),
    )


def sections(data: ReportData, pictures: EmbeddedPictures) -> list[Section]:
    """Return all sections that the data suffice for, the most useful first."""
    candidates = [
        label_issues.section(data, pictures),
        near_duplicates.section(data, pictures),
        weak_classes.section(data),
        out_of_distribution.section(data, pictures),
        mistakes.section(data, pictures),
        confusion.section(data, pictures),
        learning_curve.section(data),
        projection.section(data, pictures),
        reliability.section(data),
        film.section(data),
        facts.section(data),
    ]
    return [section for section in candidates if section is not None]


def _render(section: Section) -> Markup:
    term = tag("span", f" {section.term}", class_="term") if section.term else None
    basis = paragraph("Measured on ", section.basis, ".", class_="basis") if section.basis else None
    return tag(
        "section",
        tag("h2", section.title, term, id=f"{section.anchor}-title"),
        join(section.body, basis),
        id=section.anchor,
        aria_labelledby=f"{section.anchor}-title",
    )
