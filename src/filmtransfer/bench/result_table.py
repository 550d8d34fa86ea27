"""A table of our results next to the published ones, and its Markdown, CSV and LaTeX forms.

The caption always names the backbone of the published numbers, and says so if it differs from ours.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..files import write_atomically
from .published import BACKBONES, Published

EMPTY_CELL = "–"
PUBLISHED_FIELDS = ("published", "published_interval", "published_backbone", "difference", "inside")
COMPARISON = (
    "In brackets: the published number, ours minus it, and whether the difference lies within the sum of both "
    "intervals (✓) or not (✗)."
)
LEGEND = (
    f"± is 1.96 standard errors over seeds (the paper's interval), with the same test images. {COMPARISON}"
)


@dataclass(frozen=True)
class Cell:
    """Accuracy in percent over seeds, and the published number."""

    mean: float
    half_width: float | None  # of the 95% interval; None for a single seed
    seeds: int
    published: Published | None = None

    @property
    def difference(self) -> float | None:
        """Our mean minus the published number."""
        return None if self.published is None else self.mean - self.published.value

    @property
    def within_intervals(self) -> bool | None:
        """Whether |ours − published| is at most the sum of both half-widths; None for a single seed."""
        if self.published is None or self.half_width is None:
            return None
        tolerance = self.half_width + (self.published.half_width or 0.0) + 1e-9
        return abs(self.mean - self.published.value) <= tolerance

    @property
    def ours(self) -> str:
        """Our mean and its interval as text."""
        interval = "" if self.half_width is None else f" ± {format_tenths(self.half_width)}"
        return format_tenths(self.mean) + interval

    def __str__(self) -> str:
        if self.published is None or self.difference is None:
            return self.ours
        mark = {True: " ✓", False: " ✗", None: ""}[self.within_intervals]
        return f"{self.ours} ({self.published}, {format_tenths(self.difference, '+')}{mark})"


def format_tenths(value: float, sign: str = "") -> str:
    """Format with one digit, a real minus sign, and no minus sign before zero."""
    return f"{round(value, 1) + 0.0:{sign}.1f}".replace("-", "−")


@dataclass(frozen=True)
class Count:
    """A number that does not depend on the sampled images: parameters, bytes, relative update size."""

    value: float
    digits: int
    published: Published | None = None

    def __str__(self) -> str:
        ours = f"{self.value:,.{self.digits}f}"
        return ours if self.published is None else f"{ours} ({self.published.printed})"


@dataclass(frozen=True)
class ResultTable:
    """Cells by row and column; None is a cell without a run."""

    title: str
    backbone: str  # ours
    row_names: Sequence[str]  # the names of the row heads: dataset, shots
    row_heads: Sequence[Sequence[str]]
    column_heads: Sequence[str]
    cells: Sequence[Sequence[Cell | Count | None]]
    notes: Sequence[str] = ()
    legend: str = ""  # how to read a cell, if its interval is not one over seeds

    @property
    def caption(self) -> str:
        """The title, the backbones, and how to read a cell."""
        cells = [cell for row in self.cells for cell in row if cell is not None]
        theirs = list(dict.fromkeys(cell.published.backbone for cell in cells if cell.published))
        seeds = sorted({cell.seeds for cell in cells if isinstance(cell, Cell)})
        parts = [f"{self.title}."]
        if not theirs:
            parts.append(f"Backbone: {self.backbone}.")
        elif theirs == [BACKBONES.get(self.backbone)]:
            parts.append(f"Backbone, ours and published: {theirs[0]}.")
        else:
            parts.append(
                f"Ours: {self.backbone}; published: {', '.join(theirs)}. "
                "The backbones differ, so a difference says little about the method."
            )
        if self.legend:
            return " ".join([*parts, self.legend])
        if seeds:
            count = " to ".join(str(n) for n in dict.fromkeys((seeds[0], seeds[-1])))
            parts.append(f"Percent, the mean of {count} {'seed' if count == '1' else 'seeds'}.")
        if theirs:
            parts.append(LEGEND if seeds else "In brackets: the published number.")
        return " ".join(parts)


def to_markdown(table: ResultTable) -> str:
    """Return the caption and a Markdown table."""
    heads, *rows = _text_rows(table)
    lines = [heads, ["---"] * len(heads), *rows]
    body = "\n".join(f"| {' | '.join(text.replace('|', chr(92) + '|') for text in line)} |" for line in lines)
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"{table.caption}\n\n{body}\n" + (f"\n{notes}" if notes else "")


def to_csv(table: ResultTable) -> str:
    """Return CSV with one line per cell that has a run, for programs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*table.row_names, "column", "backbone", "ours", "interval", "seeds", *PUBLISHED_FIELDS])
    for head, row in zip(table.row_heads, table.cells, strict=True):
        for column, cell in zip(table.column_heads, row, strict=True):
            if cell is not None:
                writer.writerow([*head, column, table.backbone, *_fields(cell)])
    return text.getvalue()


def _fields(cell: Cell | Count) -> list[str]:
    p = cell.published
    theirs = [p.printed, p.printed_interval, p.backbone] if p else ["", "", ""]
    if isinstance(cell, Count):
        return [f"{cell.value:.{cell.digits}f}", "", "", *theirs, "", ""]
    half_width = "" if cell.half_width is None else f"{cell.half_width:.2f}"
    difference = "" if cell.difference is None else f"{cell.difference:.2f}"
    inside = {True: "yes", False: "no", None: ""}[cell.within_intervals]
    return [f"{cell.mean:.2f}", half_width, str(cell.seeds), *theirs, difference, inside]


def to_latex(table: ResultTable) -> str:
    r"""Return a booktabs table; \checkmark needs the package amssymb."""
    (heads, *rows), width = _text_rows(table), len(table.row_names)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_escaped(' '.join([table.caption, *table.notes]))}}}",
        rf"  \begin{{tabular}}{{{'l' * width}{'r' * (len(heads) - width)}}}",
        r"    \toprule",
        f"    {_latex_row(heads)}",
        r"    \midrule",
        *(f"    {_latex_row(row)}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(_escaped(text) for text in texts) + r" \\"


_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "−": "$-$",
    "–": "--",
    "✓": r"$\checkmark$",
    "✗": r"$\times$",
}


def _escaped(text: str) -> str:
    return re.sub("|".join(map(re.escape, _LATEX)), lambda match: _LATEX[match[0]], text)


def _text_rows(table: ResultTable) -> list[list[str]]:
    """Return the heads and the rows of a table as text."""
    return [
        [*table.row_names, *table.column_heads],
        *(
            [*head, *(EMPTY_CELL if cell is None else str(cell) for cell in row)]
            for head, row in zip(table.row_heads, table.cells, strict=True)
        ),
    ]


WRITERS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}


def write_tables(tables: Mapping[str, ResultTable], folder: Path) -> list[Path]:
    """Write every table, by the name of its files, in all formats; return the files."""
    files = []
    for name, table in tables.items():
        for suffix, writer in WRITERS.items():
            files.append(folder / f"{name}.{suffix}")
            write_atomically(files[-1], writer(table).encode())
    return files
