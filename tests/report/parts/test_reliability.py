"""The reliability diagram."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer.report.parts import (
    reliability,
)
from tests.report.small_report import LABELS, features, predictions, report_data


def test_reliability_counts_every_photo():
    about = report_data(LABELS, features(LABELS, 1.0), temperature=2.0)
    assert about.headline is not None
    for probabilities in (about.headline.probabilities, about.headline.uncalibrated):
        for number in (5, 10):
            found = reliability.confidence_bins(probabilities, about.headline.labels, number)
            assert sum(b.total for b in found if b) == len(about.headline)
            correct = int((probabilities.argmax(1) == about.headline.labels).sum())
            assert sum(b.correct for b in found if b) == correct
    section = reliability.section(about)
    assert section is not None
    assert "less confident (T = 2.00" in section.body
    assert "hollow" in section.body


@pytest.mark.parametrize(
    ("confidence", "wrong", "expected"),
    [
        (0.99, 12, "overconfident, that is, its predictions are correct less often than it says."),
        (0.55, 0, "underconfident, that is, its predictions are correct more often than it says."),
        (0.9, 2, "its percentages can be trusted"),
    ],
)
def test_the_verdict_is_in_plain_words(confidence, wrong, expected):
    labels = [1] * wrong + [0] * (24 - wrong)
    headline = predictions([[confidence, 1 - confidence]] * 24, labels)
    section = reliability.section(replace(report_data(LABELS, features(LABELS)), headline=headline))
    assert section is not None
    assert expected in section.body
