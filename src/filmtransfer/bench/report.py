"""What a sweep leaves in its folder: tables in three formats, figures, and one page that holds them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..files import write_atomically
from .figures import draw_figure
from .html_page import render_page
from .recipe import Recipe
from .result_table import WRITERS
from .sweep import SweepResult
from .tables import build_tables


def write_report(recipe: Recipe, made: SweepResult, folder: Path) -> list[Path]:
    """Write everything that the rows at hand allow; returns the files."""
    files: list[Path] = []
    if not made.rows:
        return files
    tables = build_tables(recipe.table, made.rows, recipe.title)
    tables[:1] = [replace(table, notes=[*table.notes, *notes_on(made.rows)]) for table in tables[:1]]
    for number, table in enumerate(tables, 1):
        for suffix, writer in WRITERS.items():
            name = "table" if number == 1 else f"table_{number}"
            files.append(_write(folder / f"{name}.{suffix}", writer(table).encode()))
    pictures = {name: draw_figure(name, made.rows) for name in recipe.figures}
    found = {name: picture for name, picture in pictures.items() if picture is not None}
    files += [_write(folder / f"{name}.png", picture) for name, picture in found.items()]
    files.append(_write(folder / "index.html", render_page(recipe, made, tables, found).encode()))
    return files


def notes_on(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader has to know: about the images of each set, and about runs that could not fine-tune."""
    sets: dict[str, list[str]] = {}
    for row in rows:
        for note in row["result"].get("notes", ()):
            sets.setdefault(note, []).append(row["settings"]["dataset"])
    notes = [f"{', '.join(dict.fromkeys(names))}: {note}" for note, names in sets.items()]
    still = sum(row["result"].get("stopped") == "one-shot" for row in rows)
    if still:
        notes.append(f"{still} runs with one image per class built their head without fine-tuning.")
    return notes


def _write(path: Path, content: bytes) -> Path:
    write_atomically(path, content)
    return path
