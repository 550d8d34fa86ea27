"""The top of the report."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.formatting import accuracy_figures
from filmtransfer.model import Estimate
from filmtransfer.report.parts import summary
from filmtransfer.report.report_data import ReportData
from filmtransfer.training.assess.evaluation import wilson
from tests.report.small_report import LABELS, features, predictions, report_data


def trained(correct: int, images: int, **changes: object) -> ReportData:
    """Return a training report with so many correct predictions."""
    data = report_data(LABELS, features(LABELS))
    estimate = Estimate(correct / images, *wilson(correct, images), images, unseen=True)
    data.update.results["estimate"] = estimate.stored()
    return replace(data, **changes)


def test_the_summary_shows_the_figures_that_the_update_stores():
    data = trained(17, 20)
    text = summary.summary(data, [])
    accuracy, low, high = accuracy_figures(data.update.estimate)
    assert (accuracy, low, high) == ("85%", "63%", "95%")
    assert "<strong>17 of the 20 photos that it was tested on correctly</strong>" in text
    assert f"anywhere from {low} to {high}" in text
    assert f'<span class="number">{accuracy}</span>' in text
    assert f"Accuracy {accuracy}, 95% interval {low} to {high}" in text, "for screen readers"
    assert "Guessing would get 25%" in text


@pytest.mark.parametrize(
    ("correct", "images", "sentence"),
    [
        (10, 10, "all 10 photos that it was tested on correctly</strong>. With so few photos, its accuracy on new photos may be anywhere from 72% to 100%."),
        (0, 10, "none of the 10 photos that it was tested on correctly</strong>. With so few photos, its accuracy on new photos may be anywhere from 0% to 28%."),
        (1, 1, "the only photo that it was tested on correctly</strong>"),
        (0, 1, "the only photo that it was tested on wrongly</strong>"),
        (1, 3, "1 of the 3 photos that it was tested on correctly</strong>"),
        (60, 60, "all 60 photos that it was tested on correctly</strong>. Its accuracy"),
        (1188, 1200, "99.0% of the 1,200 photos that it was tested on correctly</strong>"),
    ],
)  # fmt: skip
def test_the_opening_reads_well_at_every_result(correct, images, sentence):
    assert sentence in summary.summary(trained(correct, images), [])


def test_photos_that_fine_tuning_had_seen_are_no_promise():
    assert "expect less on new ones" not in summary.summary(trained(9, 10), [])
    assert "expect less on new ones" in summary.summary(trained(9, 10, unseen=False), [])


def test_the_summary_of_a_test_counts_its_photos():
    data = report_data(LABELS, features(LABELS), kind="test")
    tested = predictions([[0.9, 0.05, 0.03, 0.02]], [0])
    text = summary.summary(replace(data, headline=tested, predictions=tested), [])
    assert "It classified <strong>the only test photo correctly</strong>" in text
    several = predictions([[0.9, 0.05, 0.03, 0.02]] * 3, [0, 1, 0])
    text = summary.summary(replace(data, headline=several, predictions=several), [])
    assert "It classified <strong>2 of the 3 test photos correctly</strong>" in text


def test_without_a_second_photo_the_accuracy_is_unknown():
    labels = np.arange(4)
    data = report_data(labels, features(labels), assessed=False)
    assert "Its accuracy is unknown" in summary.summary(data, [])


def test_an_edited_classifier_is_not_called_trained_on_its_photos():
    data = trained(9, 10)
    data.update.edits.append({"what": "forget", "photos": 1})
    assert "edited after training and is now made of your 32 photos" in summary.summary(data, [])
