"""The figures of federated runs, and the page that shows them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from filmtransfer.bench import plotting
from filmtransfer.bench.figures import draw_figure
from filmtransfer.bench.html_page import render_page
from filmtransfer.bench.recipe import load_recipe
from filmtransfer.bench.report import write_report
from filmtransfer.bench.sweep import SweepResult
from tests.bench.federated_rows import BYTES, complete_rows, make_row
from tests.bench.test_figures import seen
from tests.bench.test_html_page import Reader

pytestmark = pytest.mark.slow  # Drawing costs seconds.

COMPRESSED = [make_row(0.5 + i / 50, seed=s, compression=k) for i, k in enumerate(BYTES) for s in (0, 1)]


EXAMPLES = {
    "papers": complete_rows(),
    "two sets": complete_rows() + complete_rows(dataset="quickdraw"),
    "algorithms": complete_rows()
    + [r for r in complete_rows(algorithm="median") if r["settings"]["bound"] == "federated"],
    "compressions": [*COMPRESSED, make_row(0.4, "lower")],
    "BiT": [make_row(0.7 + s / 100, method=m, shots=s) for m in ("BiT", "FiT-ProtoNets") for s in (2, 5)],
    "with holes": [r for i, r in enumerate(complete_rows()) if i % 3 and i != 5],
    "one": [make_row()],
}


@pytest.fixture
def drawn(monkeypatch) -> dict[str, Any]:
    """The texts of the last figure."""
    texts: dict[str, Any] = {}
    save = plotting.figure_png

    def capture(figure: Any) -> bytes:
        texts["legend"] = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        texts["x"] = {axis.get_xlabel() for axis in figure.axes} - {""}
        texts["y"] = [axis.get_ylabel() for axis in figure.axes if axis.get_ylabel()]
        texts["panels"] = len(figure.axes)
        texts["scale"] = figure.axes[0].get_xscale()
        texts["horizontal"] = [
            line.get_ydata()[0]
            for line in figure.axes[0].lines
            if line.get_linestyle() != "-" and len(line.get_ydata())
        ]
        return save(figure)

    monkeypatch.setattr(plotting, "figure_png", capture)
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["communication", "spread"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_a_figure_is_an_image(name, figure):
    seen(draw_figure(figure, EXAMPLES[name]))


def test_the_papers_figure(drawn):
    seen(draw_figure("communication", EXAMPLES["papers"]))
    assert drawn["legend"] == ["2 shots", "5 shots", "10 shots", "upper bound", "lower bound"]
    assert drawn["panels"] == 4
    assert drawn["x"] == {"millions of parameters sent"}
    assert drawn["y"] == ["global accuracy, %", "personalized accuracy, %"]
    assert np.allclose(drawn["horizontal"], [67.5, 52.5, 70.5, 55.5, 75.5, 60.5]), "the means of the bounds"


def test_variants_are_compared_by_shots(drawn):
    seen(draw_figure("communication", EXAMPLES["algorithms"]))
    assert drawn["legend"][:2] == ["FiT-ProtoNets, FedAvg", "FiT-ProtoNets, median"]
    assert drawn["panels"] == 2 * 3 * 2
    seen(draw_figure("communication", EXAMPLES["compressions"]))
    assert drawn["x"] == {"millions of bytes sent"}
    assert len(drawn["legend"]) == 4


def test_fedprox_is_not_drawn_where_fedavg_is(drawn):
    proximal = [r for r in complete_rows(algorithm="fedprox") if r["settings"]["bound"] == "federated"]
    seen(draw_figure("communication", complete_rows() + proximal))
    assert drawn["legend"][:3] == ["2 shots", "5 shots", "10 shots"]
    seen(draw_figure("communication", proximal))
    assert drawn["legend"][:3] == ["2 shots", "5 shots", "10 shots"], "but alone it is drawn"


def test_bit_and_fit_need_a_logarithmic_axis(drawn):
    seen(draw_figure("communication", EXAMPLES["BiT"]))
    assert drawn["scale"] == "log"
    assert drawn["x"] == {"parameters sent"}
    assert drawn["y"] == ["2 shots\nglobal accuracy, %", "5 shots\nglobal accuracy, %"]


def test_clients_of_every_bound(drawn):
    seen(draw_figure("spread", EXAMPLES["papers"]))
    assert drawn["legend"] == ["lower bound", "federated", "upper bound"]
    seen(draw_figure("spread", [make_row(0.5, "lower")]))
    assert drawn["legend"] == ["lower bound"]


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["communication", "spread"])
def test_every_run_changes_the_figure(figure):
    before = seen(draw_figure(figure, EXAMPLES["papers"]))
    changed = [*EXAMPLES["papers"]]
    last = changed[-1]["settings"]
    changed[-1] = make_row(0.1, **{k: last[k] for k in ("bound", "clients", "shots", "seed")})
    after = seen(draw_figure(figure, changed))
    assert before.shape != after.shape or (before != after).any()
    assert (seen(draw_figure(figure, EXAMPLES["papers"])) == before).all(), "and is reproducible"


def test_no_figure_without_results():
    for figure in ("communication", "spread"):
        assert draw_figure(figure, []) is None
        assert (
            draw_figure(
                figure, [{"settings": {"dataset": "a", "method": "BiT"}, "result": {"curve": [[0, 0.1]]}}]
            )
            is None
        )
    assert draw_figure("communication", [make_row(0.5, "lower")]) is None
    assert draw_figure("communication", [make_row(result={"curve": []})]) is None
    assert draw_figure("spread", [make_row(result={"clients_accuracy": None})]) is None
    assert draw_figure("curves", [make_row()]) is None


def test_a_seed_that_stopped_early():
    short = make_row(0.5, seed=1)
    short["result"]["curve"] = short["result"]["curve"][:3]
    seen(draw_figure("communication", [make_row(), short]))
    seen(draw_figure("communication", [short, make_row()]))


def test_one_evaluation_at_the_end_is_enough():
    last = make_row()
    last["result"]["curve"] = last["result"]["curve"][-1:]
    seen(draw_figure("communication", [last]))


def test_the_page_of_a_federation(tmp_path):
    recipe = load_recipe("federated_cifar100")
    files = {f.name for f in write_report(recipe, SweepResult(complete_rows()), tmp_path)}
    assert {"table.md", "table_2.md", "communication.png", "spread.png", "index.html"} <= files
    text = Reader((tmp_path / "index.html").read_text(encoding="utf-8")).text
    for texts in (
        "36 of 108 runs",
        "Communication",
        "Accuracy of single clients",
        "personalized FL",
        "paper 0.1M",
    ):
        assert texts in text
    assert "0.6 hours" in text
    assert render_page(recipe, SweepResult([make_row(method="BiT")]), [], {}).count("None") == 0
    json.dumps(complete_rows())  # a row is a line of the results file
