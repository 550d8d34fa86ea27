"""The page of a sweep: complete, self-contained, with escaped names."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from filmtransfer.bench.html_page import render_page
from filmtransfer.bench.published import lookup
from filmtransfer.bench.recipe import Recipe, parse_recipe
from filmtransfer.bench.report import write_report
from filmtransfer.bench.result_table import Cell, Count, ResultTable
from filmtransfer.bench.sweep import SweepResult
from filmtransfer.bench.tables import build_tables
from tests.bench.tiny import RECIPE, row

EMPTY = {"meta", "img", "br", "link", "hr", "input"}
ROWS = [
    row(0.5 + seed / 10, method, seed, dataset=name, shots=shots)
    for name in ("cifar10", "flowers102")
    for method in ("BiT", "FiT-LDA")
    for shots in (1, 10)
    for seed in (0, 1, 2)
]


class Reader(HTMLParser):
    """Checks that every tag is closed, and collects tags and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), f"an attribute of {tag} stands twice"
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in EMPTY, f"<{tag}/> is not closed in HTML"
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "title"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def made_page(rows: list[dict[str, Any]], recipe: Recipe | None = None, **more: Any) -> str:
    recipe = recipe or parse_recipe(RECIPE, "tiny.toml")
    return render_page(recipe, SweepResult(rows, **more), build_tables(recipe.table, rows, recipe.title), {})


def test_the_page_is_complete_and_self_contained(tmp_path):
    recipe = parse_recipe(RECIPE.replace('["shots"]', '["shots", "size", "film"]'), "tiny.toml")
    files = write_report(recipe, SweepResult(ROWS), tmp_path)
    names = {f.name for f in files}
    assert {"table.md", "table.csv", "table.tex", "shots.png", "size.png", "index.html"} <= names
    assert "film.png" not in names, "no row has FiLM"
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    read = Reader(text)
    assert text.startswith("<!doctype html>")
    assert not read.all("script")
    assert not read.all("link")
    assert not re.search(r"@import|url\(|https?://", text)
    pictures = read.all("img")
    assert len(pictures) == 2
    for picture, name in zip(pictures, ("shots", "size"), strict=True):
        assert picture["alt"]
        kind, _, data = str(picture["src"]).partition(",")
        assert kind == "data:image/png;base64"
        assert base64.b64decode(data) == (tmp_path / f"{name}.png").read_bytes()
        with Image.open(io.BytesIO(base64.b64decode(data))) as image:
            image.verify()
    loads = [
        v for _, a in read.tags for k, v in a.items() if k in ("src", "href", "srcset", "data", "action")
    ]
    assert loads == [picture["src"] for picture in pictures]
    assert [a.get("lang") for a in read.all("html")] == ["en"]
    assert read.all("meta")[0] == {"charset": "utf-8"}


def test_every_number_of_the_tables_is_on_the_page():
    read = Reader(made_page(ROWS))
    cells = [
        c for table in build_tables("few_shot", ROWS) for line in table.cells for c in line if c is not None
    ]
    assert len(cells) == 24
    for cell in cells:
        if isinstance(cell, Count):
            assert f"{cell.value:,.{cell.digits}f}" in read.text
        else:
            assert f"{cell.mean:.1f} ± {cell.half_width:.1f}" in read.text
    theirs = lookup("few_shot_results", "cifar10", "FiT-LDA", shots=10)
    assert theirs is not None
    assert f"paper {theirs.printed} ± {theirs.printed_interval};" in read.text
    for line in ROWS:
        assert f"{line['result']['accuracy']:.4f}" in read.text
    assert read.text.count("130123") == len(ROWS)


def test_cells_of_every_kind():
    theirs = lookup("few_shot_results", "cifar10", "FiT-LDA", shots=10)
    cells = [
        Cell(70.0, 0.5, 3, theirs), Cell(90.6, 0.5, 3, theirs), Cell(33.25, None, 1), Cell(44.0, None, 1, theirs),
        Count(1234567.0, 0), None,
    ]  # fmt: skip
    table = ResultTable("T", "b", ("dataset",), [("cifar10",)], [f"c{i}" for i in range(6)], [cells])
    read = Reader(render_page(parse_recipe(RECIPE, "x"), SweepResult(), [table], {}))
    for text in ("70.0 ± 0.5", "✗", "90.6 ± 0.5", "✓", "33.2", "44.0", "1,234,567"):
        assert text in read.text
    assert [a["class"] for a in read.all("span")] == ["outside", "inside", ""]
    assert "nan" not in read.text.lower()
    assert "None" not in read.text


def test_columns_have_headings_and_alignment():
    read = Reader(made_page(ROWS, parse_recipe(RECIPE, "tiny.toml")))
    rows = [a for a in read.all("th") if a["scope"] == "row"]
    assert len(rows) == 2 * 4 * 2, "two tables with four rows and two headings each"
    assert all("class" not in a for a in rows)
    assert all(a["class"] == "right" for a in read.all("td"))


def test_the_columns_of_every_run():
    sent = {"numbers": 1, "parameters": 2, "test_images": 3}
    text = Reader(made_page([row(0.5, result=sent)])).text
    assert " test images parameters " in text
    assert " parameters sent " in text
    assert "numbers" not in text.partition("Every run")[2]


def test_minus_signs():
    theirs = lookup("few_shot_results", "cifar10", "FiT-LDA", shots=10)
    assert theirs is not None
    cells = [Cell(-0.04, 0.01, 3), Cell(theirs.value - 0.04, 0.5, 3, theirs), Cell(-3.0, 1.0, 3)]
    table = ResultTable("T", "b", ("dataset",), [("cifar10",)], ["a", "b", "c"], [cells])
    text = Reader(render_page(parse_recipe(RECIPE, "x"), SweepResult(), [table], {})).text
    assert "0.0 ± 0.0" in text
    assert "+0.0 ✓" in text
    assert "−3.0 ± 1.0" in text
    assert "-0.0" not in text
    assert "−0.0" not in text


def test_the_title_occurs_once():
    text = made_page(ROWS)
    assert text.count("<h1>Tiny</h1>") == 1
    assert "<h2>Tiny</h2>" not in text
    assert "<h2>Size of the update" in text


NASTY = '<script>alert("1")</script> & <b>x'


def test_names_are_escaped():
    rows = [row(0.5, NASTY, seed, dataset=NASTY, shots=NASTY, split=NASTY) for seed in (0, 1)]
    recipe = Recipe(NASTY, NASTY, "few_shot", {"seed": [0]}, {"dataset": "x", "method": NASTY}, about=NASTY)
    text = made_page(rows, recipe, failures={NASTY: NASTY})
    read = Reader(text)
    assert not read.all("script")
    assert not read.all("b")
    assert read.text.count('<script>alert("1")</script> & <b>x') >= 8
    assert len(read.all("table")) == 3


def test_failures_are_listed_with_their_reasons():
    failures = {"svhn 5 shots BiT seed 0": "SVHN is not in data.", "dtd BiT seed 1": "The worker died."}
    read = Reader(made_page(ROWS, failures=failures))
    assert "Runs that failed" in read.text
    for name, reason in failures.items():
        assert f"{name}: {reason}" in read.text
    assert "Runs that failed" not in Reader(made_page(ROWS)).text


def test_the_page_shows_the_recipe():
    read = Reader(made_page(ROWS[:3]))
    assert "3 of 8 runs" in read.text
    assert "fit bench run tiny.toml" in read.text
    assert "Tiny" in read.text


def test_without_rows_nothing_is_written(tmp_path):
    assert write_report(parse_recipe(RECIPE, "x"), SweepResult(failures={"a": "b"}), tmp_path / "no") == []
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("suffix", ["md", "csv", "tex"])
def test_a_report_of_the_same_rows_is_the_same_file(tmp_path: Path, suffix):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_report(parse_recipe(RECIPE, "x"), SweepResult(ROWS), tmp_path / name)
    assert (tmp_path / "a" / f"table.{suffix}").read_bytes() == (
        tmp_path / "b" / f"table.{suffix}"
    ).read_bytes()
