"""Render the report of a sweep as one HTML page: tables with the published numbers, figures, and every run.

The page is self-contained, without scripts, fonts or images from elsewhere; it works on narrow screens, light and dark.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

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
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --soft: #f3f4f6; --line: #d8dce2; --muted: #5b6470;
  --good: #146c43; --bad: #b02a1b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaed; --paper: #14171b; --soft: #1e2329; --line: #343b44;
  --muted: #a3acb8; --good: #5fd39a; --bad: #ff9d90; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.2rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: .4rem 0 .6rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; }
p { max-width: 46rem; } .muted { color: var(--muted); }
pre { background: var(--soft); padding: .8rem; border-radius: .5rem; overflow-x: auto; font-size: .85rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: .5rem; }
table { border-collapse: collapse; width: 100%; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .7rem; text-align: right; white-space: nowrap; border-top: 1px solid var(--line); }
th { font-weight: 600; background: var(--soft); } th.row, td.row { text-align: left; }
td small { color: var(--muted); display: block; } .inside { color: var(--good); } .outside { color: var(--bad); }
figure { margin: .6rem 0; overflow-x: auto; } figure img { width: 100%; min-width: 36rem; height: auto; background: #fff;
  border-radius: .5rem; padding: .4rem; }
ul { padding-left: 1.2rem; } summary { cursor: pointer; }
"""


def render_page(
    recipe: Recipe, result: SweepResult, tables: Sequence[ResultTable], figures: Mapping[str, bytes]
) -> str:
    """Return the HTML of the page."""
    total = len(recipe.runs())
    seconds = sum(row["result"].get("seconds_in_all", row["result"].get("seconds", 0)) for row in result.rows)
    status = f"{len(result.rows)} of {total} runs, {seconds / 3600:.1f} hours of computing."
    parts = [
        f"<h1>{escape(recipe.title)}</h1>",
        f'<p class="muted">{escape(status)}</p>',
        *(_html_table(table, i > 0 or table.title != recipe.title) for i, table in enumerate(tables)),
        *(_figure(name, png) for name, png in figures.items()),
        _failures(result),
        f"<h2>The recipe</h2><pre>{escape(recipe.about)}</pre>" if recipe.about else "",
        _runs(result),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(recipe.title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _html_table(table: ResultTable, heading: bool) -> str:
    """Render a table, with its title unless that is the title of the page."""
    heads = "".join(f'<th scope="col" class="row">{escape(name)}</th>' for name in table.row_names)
    heads += "".join(f'<th scope="col">{escape(name)}</th>' for name in table.column_heads)
    rows = []
    for head, cells in zip(table.row_heads, table.cells, strict=True):
        first = "".join(f'<th scope="row" class="row">{escape(text)}</th>' for text in head)
        rows.append(f"<tr>{first}{''.join(_html_cell(cell) for cell in cells)}</tr>")
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    title = escape(table.title)
    return (
        (f"<h2>{title}</h2>" if heading else "")
        + f'<p class="muted">{escape(table.caption.removeprefix(table.title + ".").strip())}</p>'
        f'<div class="wide" role="region" aria-label="{title}" tabindex="0"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        + (f"<ul>{notes}</ul>" if notes else "")
    )


def _html_cell(cell: Cell | Count | None) -> str:
    if cell is None:
        return f"<td>{EMPTY_CELL}</td>"
    if isinstance(cell, Count):
        digits = f"{cell.value:,.{cell.digits}f}"
        published = f"<small>paper {escape(cell.published.printed)}</small>" if cell.published else ""
        return f"<td>{digits}{published}</td>"
    if cell.published is None:
        return f"<td>{cell.ours}</td>"
    mark = {True: ("inside", "✓"), False: ("outside", "✗"), None: ("", "")}[cell.within_intervals]
    difference = format_tenths(cell.difference or 0.0, "+")
    return (
        f'<td>{cell.ours}<small>paper {escape(str(cell.published))}; <span class="{mark[0]}">'
        f"{difference} {mark[1]}</span></small></td>"
    )


def _figure(name: str, png: bytes) -> str:
    data = base64.b64encode(png).decode()
    title = escape(FIGURE_TITLES[name])
    return (
        f'<h2>{title}</h2><figure role="region" aria-label="{title}" tabindex="0"><img alt="{title}. The numbers are in the table." '
        f'src="data:image/png;base64,{data}"></figure>'
    )


def _failures(result: SweepResult) -> str:
    if not result.failures:
        return ""
    lines = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in result.failures.items())
    return f"<h2>Runs that failed</h2><ul>{lines}</ul>"


def _runs(result: SweepResult) -> str:
    """Render a table of all runs."""
    settings = (
        "dataset", "clients", "shots", "method", "split", "bound", "algorithm", "compression", "seed",
    )  # fmt: skip
    measurements = (
        "accuracy", "personalized", "images", "test_images", "numbers", "bytes", "updateable", "parameters",
        "bytes_up", "bytes_down", "steps", "seconds",
    )  # fmt: skip
    shown = [name for name in settings if any(name in row["settings"] for row in result.rows)]
    measured = [name for name in measurements if any(name in row["result"] for row in result.rows)]
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in (*shown, *measured))
    rows = "".join(
        "<tr>"
        + "".join(f"<td>{escape(_text(row['settings'].get(name)))}</td>" for name in shown)
        + "".join(f"<td>{escape(_text(row['result'].get(name)))}</td>" for name in measured)
        + "</tr>"
        for row in result.rows
    )
    return (
        f"<h2>Every run</h2><details><summary>{len(result.rows)} runs</summary>"
        f'<div class="wide" role="region" aria-label="Every run" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _text(value: object) -> str:
    if value is None:
        return EMPTY_CELL
    return f"{value:.4f}" if isinstance(value, float) and value < 1 else str(value)
