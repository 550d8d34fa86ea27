"""Write the report of a sweep: tables in three formats, figures, and one page with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..files import write_atomically
from .averages import run_notes
from .figures import draw_figure
from .html_page import render_page
from .recipe import Recipe
from .result_table import write_tables
from .rows import Row, quantity
from .sweep import SweepResult
from .tables import build_tables


def write_report(recipe: Recipe, result: SweepResult, folder: Path) -> list[Path]:
    """Write every table and figure that the rows allow; return the files."""
    if not result.rows:
        return []
    tables = build_tables(recipe.table, result.rows, recipe.title)
    tables[:1] = [replace(table, notes=[*table.notes, *report_notes(result.rows)]) for table in tables[:1]]
    names = ["table", *(f"table_{number}" for number in range(2, len(tables) + 1))]
    files = write_tables(dict(zip(names, tables, strict=False)), folder)
    figures = {name: draw_figure(name, result.rows) for name in recipe.figures}
    drawn = {name: png for name, png in figures.items() if png is not None}
    content = {f"{name}.png": png for name, png in drawn.items()}
    content["index.html"] = render_page(recipe, result, tables, drawn).encode()
    for name, data in content.items():
        files.append(folder / name)
        write_atomically(files[-1], data)
    return files


def report_notes(rows: Sequence[Row]) -> list[str]:
    """Return notes on the images of each dataset, and on runs that could not be fine-tuned."""
    notes = run_notes(rows, "dataset")
    untrained = sum(row["result"].get("stopped") == "one-shot" for row in rows)
    if untrained:
        runs, their = quantity(untrained, "run"), "its" if untrained == 1 else "their"
        notes.append(f"{runs} with one image per class built {their} head without fine-tuning.")
    return notes
