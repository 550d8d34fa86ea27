"""Write the report of a sweep: tables in three formats, figures, and one page with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..files import write_atomically
from .figures import draw_figure
from .html_page import render_page
from .recipe import Recipe
from .result_table import WRITERS
from .rows import Row
from .sweep import SweepResult
from .tables import build_tables


def write_report(recipe: Recipe, result: SweepResult, folder: Path) -> list[Path]:
    """Write every table and figure that the rows allow; return the files."""
    files: list[Path] = []
    if not result.rows:
        return files
    tables = build_tables(recipe.table, result.rows, recipe.title)
    tables[:1] = [replace(table, notes=[*table.notes, *report_notes(result.rows)]) for table in tables[:1]]
    for number, table in enumerate(tables, 1):
        for suffix, writer in WRITERS.items():
            name = "table" if number == 1 else f"table_{number}"
            files.append(_write(folder / f"{name}.{suffix}", writer(table).encode()))
    figures = {name: draw_figure(name, result.rows) for name in recipe.figures}
    drawn = {name: png for name, png in figures.items() if png is not None}
    files += [_write(folder / f"{name}.png", png) for name, png in drawn.items()]
    files.append(_write(folder / "index.html", render_page(recipe, result, tables, drawn).encode()))
    return files


def report_notes(rows: Sequence[Row]) -> list[str]:
    """Return notes on the images of each dataset, and on runs that could not be fine-tuned."""
    datasets: dict[str, list[str]] = {}
    for row in rows:
        for note in row["result"].get("notes", ()):
            datasets.setdefault(note, []).append(row["settings"]["dataset"])
    notes = [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in datasets.items()]
    untrained = sum(row["result"].get("stopped") == "one-shot" for row in rows)
    if untrained:
        notes.append(f"{untrained} runs with one image per class built their head without fine-tuning.")
    return notes


def _write(path: Path, content: bytes) -> Path:
    write_atomically(path, content)
    return path
