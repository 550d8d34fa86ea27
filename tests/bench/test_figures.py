"""Figures from rows, also where runs are missing."""

from __future__ import annotations

import builtins
import io
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from PIL import Image

from filmtransfer.bench import plotting
from filmtransfer.bench.figures import draw_figure
from filmtransfer.errors import MissingExtraError
from tests.bench.tiny import row

pytestmark = pytest.mark.slow  # Drawing costs seconds.

FILM = {f"blocks.{i}.{part}": [0, 0.1, 0.2, 0.3, 0.4 + i] for i in range(17) for part in ("gamma", "beta")}


def few_shot(seeds: int = 2) -> list[dict[str, Any]]:
    return [
        row(
            0.5 + 0.05 * seed + 0.02 * shots,
            method,
            seed,
            dataset=name,
            shots=shots,
            result={"numbers": size},
        )
        for name in ("cifar10", "flowers102", "oxford_pets")
        for method, size in (("BiT", 3_000_000), ("FiT-LDA", 32_140))
        for shots in (1, 5, 10)
        for seed in range(seeds)
    ]


ROWS = {
    "size": few_shot(),
    "shots": few_shot(),
    "curves": [
        row(0.6, method, seed, dataset=name, result={"curve": [[0, 0.1], [1, 0.3 + seed / 10], [40, 0.6]]})
        for name in ("cifar10", "svhn")
        for method in ("FiT-LDA", "BiT")
        for seed in (0, 1)
    ],
    "film": [row(0.6, dataset=name, result={"film": FILM}) for name in ("cifar10", "svhn")],
    "bodies": [
        row(0.6, f"{head}-{body}", seed, dataset=name)
        for head in ("LDA", "Linear")
        for body in ("None", "FiLM", "All")
        for name in ("cifar10", "svhn")
        for seed in (0, 1)
    ],
    "splits": [
        row(0.6, method, seed, dataset=name, shots=shots, split=split)
        for name in ("cifar10", "svhn")
        for method in ("FiT-LDA", "FiT-ProtoNets")
        for split in ("no_split", "split", "use_all", "resplit")
        for shots in (2, 5)
        for seed in (0, 1)
    ],
}


def seen(content: bytes | None) -> np.ndarray:
    """The pixels of a PNG of a size that can be read."""
    assert content is not None
    with Image.open(io.BytesIO(content)) as picture:
        assert picture.format == "PNG"
        pixels = np.asarray(picture.convert("RGB"))
    height, width, _ = pixels.shape
    assert 400 < height < 3000
    assert 600 < width < 4000
    assert pixels.std() > 10, "more than paper"
    assert (pixels[[0, -1]] == 255).mean() > 0.9, "nothing is cut off at the edge"
    return pixels


@pytest.fixture
def legends(monkeypatch) -> list[str]:
    """The texts of the last figure's legend."""
    texts: list[str] = []
    save = plotting.figure_png

    def capture(figure: Any) -> bytes:
        texts[:] = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        return save(figure)

    monkeypatch.setattr(plotting, "figure_png", capture)
    return texts


@cache
def draw_all(name: str) -> np.ndarray:
    """The figure of all its rows."""
    return seen(draw_figure(name, ROWS[name]))


@pytest.mark.parametrize("name", ROWS)
def test_a_figure_is_a_png(name):
    assert draw_all(name).size


@pytest.mark.parametrize("name", ROWS)
def test_one_run_is_enough_and_no_run_gives_none(name):
    seen(draw_figure(name, ROWS[name][:1]))
    assert draw_figure(name, []) is None


@pytest.mark.parametrize("name", ["curves", "film", "bodies", "splits"])
def test_rows_without_the_data_of_a_figure_give_none(name):
    assert draw_figure(name, [row(split="auto", result={"film": {}, "curve": []})]) is None


def test_rows_without_shots_have_no_figure_by_shots():
    vtab = [{**r, "settings": {k: v for k, v in r["settings"].items() if k != "shots"}} for r in few_shot()]
    assert draw_figure("size", vtab) is None
    assert draw_figure("shots", vtab) is None
    assert (seen(draw_figure("shots", [*vtab, *few_shot()])) == draw_all("shots")).all(), (
        "and do not disturb the others"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_every_run_changes_the_figure(name):
    """A figure changes with any accuracy; that of FiLM with the parameters of the first run of each dataset."""
    before = draw_all(name)
    changed = [*ROWS[name]]
    other = {
        "accuracy": 0.05,
        "curve": [[0, 0.1], [1, 0.9], [40, 0.95]],
        "film": {k: [0, 1, 2, 3, 9] for k in FILM},
    }
    changed[-1] = {**changed[-1], "result": {**changed[-1]["result"], **other}}
    after = seen(draw_figure(name, changed))
    assert before.shape != after.shape or (before != after).any()


def test_a_method_missing_in_the_first_dataset_is_in_the_legend(legends):
    rows = [
        r for r in few_shot() if (r["settings"]["dataset"], r["settings"]["method"]) != ("cifar10", "BiT")
    ]
    for name in ("size", "shots"):
        seen(draw_figure(name, rows))
        assert sorted(legends) == ["BiT", "FiT-LDA"], name


@pytest.mark.parametrize("name", ["size", "shots", "curves", "bodies", "splits"])
def test_missing_runs(name):
    """Every third run is missing, and with it some combinations."""
    seen(draw_figure(name, [r for i, r in enumerate(ROWS[name]) if i % 3 and i != 5]))


def test_a_curve_that_ended_early():
    rows = [
        row(0.3, seed=0, result={"curve": [[0, 0.1], [1, 0.3]]}),
        row(0.6, seed=1, result={"curve": [[0, 0.1], [1, 0.4], [40, 0.6]]}),
    ]
    seen(draw_figure("curves", rows))
    seen(draw_figure("curves", rows[::-1]))


def test_more_methods_than_colours(legends):
    names = [f"method {i}" for i in range(11)]
    seen(draw_figure("shots", [row(0.5, name, shots=shots) for name in names for shots in (1, "all")]))
    assert legends == names


def test_datasets_with_different_film_sites():
    """FiLM from a later stage on has fewer sites."""
    short = {k: v for k, v in FILM.items() if "blocks.1" in k}
    seen(
        draw_figure(
            "film", [row(dataset="a", result={"film": FILM}), row(dataset="b", result={"film": short})]
        )
    )


def test_figures_are_closed():
    from matplotlib import pyplot

    draw_figure("bodies", ROWS["bodies"])
    draw_figure("film", ROWS["film"])
    assert pyplot.get_fignums() == []


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    load = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return load(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"\[report\]"):
        draw_figure("shots", ROWS["shots"])
    assert "matplotlib" in sys.modules
