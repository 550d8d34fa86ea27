"""Sizes and settings."""

from __future__ import annotations

from dataclasses import replace

from filmtransfer.data import SkippedImage
from filmtransfer.report.parts import (
    facts,
)
from tests.report.small_report import LABELS, features, report_data


def test_facts_list_skipped_files():
    about = report_data(LABELS, features(LABELS))
    body = facts.section(
        replace(about, skipped=[SkippedImage(f"a/{i}.jpg", "it is broken") for i in range(25)])
    ).body
    assert "25 files could not be used" in body
    assert "a/19.jpg: it is broken" in body
    assert "and 5 more" in body
