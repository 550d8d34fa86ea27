"""Mistakes and low-confidence photos."""

from __future__ import annotations

from filmtransfer.report.parts import (
    mistakes,
)
from tests.report.small_report import predictions


def test_confident_mistakes_and_small_margins_come_first():
    some = predictions([[0.9, 0.1], [0.6, 0.4], [0.01, 0.99], [0.45, 0.55], [0.52, 0.48]], [1, 1, 1, 1, 0])
    assert mistakes.worst_mistakes(some).tolist() == [0, 1]
    assert mistakes.lowest_margins(some).tolist() == [4, 3, 2]
