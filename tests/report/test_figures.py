"""Figures are PNG images of the expected size and colours."""

from __future__ import annotations

import sys
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from filmtransfer.errors import MissingExtraError
from filmtransfer.report.figures import CORRECT, WRONG, film_by_layer, prediction_sheet
from tests.conftest import picture


def colours(image: Image.Image) -> set[str]:
    return {"#{:02x}{:02x}{:02x}".format(*c) for c in np.unique(np.asarray(image).reshape(-1, 3), axis=0)}


@pytest.mark.slow
def test_the_sheet_marks_correct_and_wrong_predictions():
    images = [np.asarray(picture(i, i)) for i in range(5)]
    args = (["cat"] * 5, ["cat"] * 4 + ["dog"], [0.9] * 5, "five")
    sheet = Image.open(BytesIO(prediction_sheet(images, *args)))
    assert sheet.width > 600
    wide = Image.open(BytesIO(prediction_sheet(images, *args, columns=5)))
    tall = Image.open(BytesIO(prediction_sheet(images, *args, columns=2)))
    assert wide.width > tall.width
    assert tall.height > wide.height
    assert {CORRECT, WRONG} <= colours(sheet)
    all_correct = Image.open(BytesIO(prediction_sheet(images, ["cat"] * 5, ["cat"] * 5, [0.9] * 5, "five")))
    assert WRONG not in colours(all_correct)


def test_film_by_layer_draws_a_figure():
    rng = np.random.default_rng(0)
    parameters = {f"layer{i}.{k}": rng.normal(size=8) for i in range(4) for k in ("gamma", "beta")}
    figure = Image.open(BytesIO(film_by_layer(parameters, [f"layer{i}" for i in range(4)], "title")))
    assert figure.width > 800


def test_a_missing_extra_names_its_pip_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[report\]'"):
        film_by_layer({"a.gamma": np.ones(1), "a.beta": np.ones(1)}, ["a"], "x")
