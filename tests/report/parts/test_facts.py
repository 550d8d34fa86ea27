"""Sizes and settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer.data import SkippedImage
from filmtransfer.report.parts import (
    facts,
)
from filmtransfer.training.finetune.outcome import STOPPED, describe_stop
from tests.report.small_report import LABELS, features, report_data


def test_facts_list_skipped_files():
    about = report_data(LABELS, features(LABELS))
    body = facts.section(
        replace(about, skipped=[SkippedImage(f"a/{i}.jpg", "it is broken") for i in range(25)])
    ).body
    assert "25 files could not be used" in body
    assert "a/19.jpg: it is broken" in body
    assert "and 5 more" in body


@pytest.mark.parametrize("stopped", STOPPED)
def test_facts_say_why_training_ended_as_the_command_does(stopped):
    results = {"steps": 5, "share": 0.5, "stopped": stopped}
    body = facts.section(report_data(LABELS, features(LABELS), results=results)).body
    assert f">5 steps{STOPPED[stopped]}, 50% of the change kept<" in body
    body = facts.section(report_data(LABELS, features(LABELS), results={"steps": 0, "stopped": stopped})).body
    assert f">none{describe_stop(stopped, 0)}<" in body
