"""The top of the report."""

from __future__ import annotations

from filmtransfer.report.parts import (
    summary,
)
from tests.report.small_report import LABELS, features, report_data


def test_the_summary_contains_accuracy_and_interval():
    about = report_data(LABELS, features(LABELS, 1.0))
    assert about.headline is not None
    result = about.headline.evaluation
    text = summary.summary(about, [])
    assert f"about {round(100 * result.accuracy)} of 100 new photos correctly" in text
    assert f"{100 * result.low:.0f}% to {100 * result.high:.0f}%" in text
    assert "Guessing would get 25%" in text
