"""A table of ours beside the paper's, written as Markdown, CSV or LaTeX.

A published number never stands without its backbone: the caption names both, and says so if they differ.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .published import BACKBONES, Published

EMPTY_CELL = "–"
PUBLISHED_FIELDS = ("published", "published_interval", "published_backbone", "difference", "inside")
LEGEND = (
    "± is 1.96 standard errors over seeds (the paper's interval), the test images being the same. In brackets: the "
    "published number, ours less it, and whether it lies within the two intervals together (✓) or not (✗)."
)


@dataclass(frozen=True)
class Cell:
    """Accuracy in percent over seeds, and what the paper prints there."""

    mean: float
    half: float | None  # of the 95% interval; None with one seed, which has none
    seeds: int
    published: Published | None = None

    @property
    def difference(self) -> float | None:
        return None if self.published is None else self.mean - self.published.value

    @property
    def inside(self) -> bool | None:
        """Whether |ours − published| is at most both half-widths together; one seed cannot tell."""
        if self.published is None or self.half is None:
            return None
        return abs(self.mean - self.published.value) <= self.half + (self.published.half or 0.0) + 1e-9

    def __str__(self) -> str:
        ours = format_tenths(self.mean) + ("" if self.half is None else f" ± {format_tenths(self.half)}")
        if self.published is None or self.difference is None:
            return ours
        theirs = self.published.printed
        if self.published.printed_interval:
            theirs += f" ± {self.published.printed_interval}"
        mark = {True: " ✓", False: " ✗", None: ""}[self.inside]
        return f"{ours} ({theirs}, {format_tenths(self.difference, '+')}{mark})"


def format_tenths(value: float, sign: str = "") -> str:
    """One digit, a real minus, and no minus before zero."""
    return f"{round(value, 1) + 0.0:{sign}.1f}".replace("-", "−")


@dataclass(frozen=True)
class Count:
    """A number that the draw of the images does not change: parameters, bytes, the relative update size."""

    value: float
    digits: int
    published: Published | None = None

    def __str__(self) -> str:
        ours = f"{self.value:,.{self.digits}f}"
        return ours if self.published is None else f"{ours} ({self.published.printed})"


@dataclass(frozen=True)
class ResultTable:
    """Cells by row and column; None is a place without a run."""

    title: str
    backbone: str  # ours
    row_names: Sequence[str]  # what the row heads are: dataset, shots
    row_heads: Sequence[Sequence[str]]
    column_heads: Sequence[str]
    cells: Sequence[Sequence[Cell | Count | None]]
    notes: Sequence[str] = ()
    legend: str = ""  # how to read a cell, where its interval is not one over seeds

    @property
    def caption(self) -> str:
        """The title, whose backbones these are, and how to read a cell."""
        found = [cell for row in self.cells for cell in row if cell is not None]
        theirs = list(dict.fromkeys(cell.published.backbone for cell in found if cell.published))
        seeds = sorted({cell.seeds for cell in found if isinstance(cell, Cell)})
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
    """A pipe table under its caption."""
    heads = [*table.row_names, *table.column_heads]
    lines = [heads, ["---"] * len(heads)]
    lines += [
        [*head, *(_text(cell) for cell in row)]
        for head, row in zip(table.row_heads, table.cells, strict=True)
    ]
    body = "\n".join(f"| {' | '.join(word.replace('|', chr(92) + '|') for word in line)} |" for line in lines)
    notes = "".join(f"- {note}\n" for note in table.notes)
    return f"{table.caption}\n\n{body}\n" + (f"\n{notes}" if notes else "")


def to_csv(table: ResultTable) -> str:
    """One line for each cell that has a run, so that a program need not take cells apart."""
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
    half = "" if cell.half is None else f"{cell.half:.2f}"
    difference = "" if cell.difference is None else f"{cell.difference:.2f}"
    mark = {True: "yes", False: "no", None: ""}[cell.inside]
    return [f"{cell.mean:.2f}", half, str(cell.seeds), *theirs, difference, mark]


def to_latex(table: ResultTable) -> str:
    r"""A booktabs table; \checkmark is amssymb's."""
    heads, width = [*table.row_names, *table.column_heads], len(table.row_names)
    rows = [
        [*head, *(_text(cell) for cell in row)]
        for head, row in zip(table.row_heads, table.cells, strict=True)
    ]
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


def _latex_row(words: Sequence[str]) -> str:
    return " & ".join(_escaped(word) for word in words) + r" \\"


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
    return re.sub("|".join(map(re.escape, _LATEX)), lambda found: _LATEX[found[0]], text)


def _text(cell: Cell | Count | None) -> str:
    return EMPTY_CELL if cell is None else str(cell)


WRITERS = {"md": to_markdown, "csv": to_csv, "tex": to_latex}
