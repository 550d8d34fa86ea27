"""Render the report of a sweep as one HTML page: tables with the published numbers, figures, and every run.

The page is self-contained, without scripts, fonts or images from elsewhere; it works on narrow screens, light and dark.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from ..report.markup import Child, Markup, document, join, paragraph, table, tag
from .recipe import Recipe
from .result_table import EMPTY_CELL, Cell, Count, ResultTable, format_tenths
from .sweep import SweepResult

FIGURE_TITLES = {
    "size": "Accuracy against updateable parameters",
    "shots": "Accuracy against shots per class",
    "curves": "Test accuracy against training step",
    "film": "Change of the FiLM parameters by layer",
    "bodies": "LDA against a linear head, by trained parameters of the backbone",
    "splits": "Accuracy by the split of the images in the episodes",
    "communication": "Accuracy against communication cost, between the bounds",
    "spread": "Accuracy of single clients",
}
SETTINGS = (
    "dataset", "clients", "shots", "method", "split", "bound", "algorithm", "compression", "seed",
)  # fmt: skip
# The key of each measurement in a result, and its column.
MEASUREMENTS = {
    "accuracy": "accuracy", "personalized": "personalized", "images": "images", "test_images": "test images",
    "numbers": "parameters", "bytes": "bytes", "updateable": "updateable parameters", "parameters": "parameters sent",
    "bytes_up": "bytes up", "bytes_down": "bytes down", "steps": "steps", "seconds": "seconds",
}  # fmt: skip


def render_page(
    recipe: Recipe, result: SweepResult, tables: Sequence[ResultTable], figures: Mapping[str, bytes]
) -> str:
    """Return the HTML of the page."""
    total = len(recipe.runs())
    seconds = sum(row["result"].get("seconds_in_all", row["result"].get("seconds", 0)) for row in result.rows)
    main = tag(
        "main",
        tag("h1", recipe.title),
        paragraph(
            f"{len(result.rows)} of {total} runs, {seconds / 3600:.1f} hours of computing.", class_="muted"
        ),
        *(_result_table(part, i > 0 or part.title != recipe.title) for i, part in enumerate(tables)),
        *(_figure(name, png) for name, png in figures.items()),
        _failures(result),
        join(tag("h2", "The recipe"), tag("pre", recipe.about)) if recipe.about else None,
        _runs(result),
    )
    return document(recipe.title, "filmtransfer.bench", main)


def _result_table(part: ResultTable, heading: bool) -> Markup:
    """Render a table, with its title unless that is the title of the page."""
    heads = [*part.row_names, *part.column_heads]
    rows = [[*head, *map(_cell, cells)] for head, cells in zip(part.row_heads, part.cells, strict=True)]
    row_heads = len(part.row_names)
    return join(
        tag("h2", part.title) if heading else None,
        paragraph(part.caption.removeprefix(part.title + ".").strip(), class_="muted"),
        table(heads, rows, part.title, range(row_heads, len(heads)), row_heads=row_heads),
        tag("ul", *(tag("li", note) for note in part.notes)) if part.notes else None,
    )


def _cell(cell: Cell | Count | None) -> str:
    if cell is None:
        return EMPTY_CELL
    if isinstance(cell, Count):
        published = tag("small", f"paper {cell.published.printed}") if cell.published else None
        return join(f"{cell.value:,.{cell.digits}f}", published)
    if cell.published is None:
        return cell.ours
    name, sign = {True: ("inside", "✓"), False: ("outside", "✗"), None: ("", "")}[cell.within_intervals]
    difference = tag("span", f"{format_tenths(cell.difference or 0.0, '+')} {sign}", class_=name)
    return join(cell.ours, tag("small", f"paper {cell.published}; ", difference))


def _figure(name: str, png: bytes) -> Markup:
    title = FIGURE_TITLES[name]
    source = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    picture = tag("img", alt=f"{title}. The numbers are in the table.", src=source)
    return join(tag("h2", title), tag("figure", picture, role="region", aria_label=title, tabindex=0))


def _failures(result: SweepResult) -> Markup | None:
    if not result.failures:
        return None
    lines = [tag("li", f"{name}: {reason}") for name, reason in result.failures.items()]
    return join(tag("h2", "Runs that failed"), tag("ul", *lines))


def _runs(result: SweepResult) -> Markup:
    """Render a table of all runs."""
    settings = [name for name in SETTINGS if any(name in row["settings"] for row in result.rows)]
    measured = [name for name in MEASUREMENTS if any(name in row["result"] for row in result.rows)]
    heads = [*settings, *(MEASUREMENTS[name] for name in measured)]
    rows: list[list[Child]] = [
        [
            *(_text(row["settings"].get(name)) for name in settings),
            *(_text(row["result"].get(name)) for name in measured),
        ]
        for row in result.rows
    ]
    runs = table(heads, rows, "Every run", range(len(heads)), row_heads=0)
    return join(tag("h2", "Every run"), tag("details", tag("summary", f"{len(result.rows)} runs"), runs))


def _text(value: object) -> str:
    if value is None:
        return EMPTY_CELL
    return f"{value:.4f}" if isinstance(value, float) and value < 1 else str(value)
