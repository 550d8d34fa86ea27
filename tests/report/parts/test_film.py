"""FiLM by layer."""

from __future__ import annotations

import numpy as np
import pytest

from filmtransfer.report.parts import (
    film,
)
from filmtransfer.training.finetune.outcome import INTERPOLATION
from tests.report.small_report import LABELS, features, report_data


def test_film_is_drawn_layer_by_layer():
    about = report_data(LABELS, features(LABELS))
    body = film.section(about).body
    assert body.count('class="box') == 2 * 3
    assert "36 FiLM parameters" in body


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"results": {"steps": 0}, "parameters": {}}, "Nothing: the backbone is unchanged"),
        ({"results": {"steps": 9, "share": 0.0}}, "it made predictions for held-out photos worse"),
        ({"settings": {"adapter": "lora"}, "parameters": {"a": np.ones(7)}}, "7 parameters of lora"),
        (
            {"settings": {"train": "all"}, "parameters": {"a": np.ones(7)}},
            "all 7 parameters of the backbone",
        ),
    ],
)
def test_without_film_a_sentence_says_why(change, expected):
    assert expected in film.section(report_data(LABELS, features(LABELS), **change)).body


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_half_of_the_change_is_described_as_by_the_command(share):
    body = film.section(report_data(LABELS, features(LABELS), results={"steps": 5, "share": share})).body
    assert (INTERPOLATION[0.5] in body) == (share == 0.5)
