"""Classes that need more photos."""

from __future__ import annotations

import re

import numpy as np

from filmtransfer.report.parts import (
    weak_classes,
)
from tests.report.small_report import LABELS, features, predictions, report_data


def test_the_weakest_class_comes_first():
    sure, lost = [0.9, 0.05, 0.05], [0.1, 0.2, 0.7]
    found = weak_classes.class_results(
        predictions([sure, sure, lost, lost, [0.05, 0.05, 0.9]], [0, 0, 1, 1, 2]), [4, 2, 1, 1]
    )
    assert [n.label for n in found] == [3, 1, 2, 0], "what cannot be assessed, then the weakest"
    assert (found[1].correct, found[1].assessed, found[1].confused_with, found[1].mistakes) == (0, 2, 2, 2)
    assert [n.weak for n in found] == [True, True, False, False]
    assert weak_classes.class_results(predictions([sure, lost], [0, 1]), [1, 1, 1], [1])[0].assessed == 0, (
        "without a mislabelled photo"
    )


def test_weak_classes_are_described():
    labels = np.append(LABELS, 4)
    section = weak_classes.section(report_data(labels, features(labels)))
    assert section is not None
    assert "has one photo and cannot be assessed" in section.body
    assert "Photograph more of" in section.advice[0]


def test_one_mistake_and_one_photo_read_well():
    data = report_data(LABELS, features(LABELS))

    def sentence(**fields: int) -> str:
        known = {"label": 0, "photos": 8, "probability": 0.5, "confused_with": 1}
        text = weak_classes._describe(data, weak_classes.ClassResult(**(known | fields)))
        return re.sub("<[^>]*>", "", text)

    assert sentence(assessed=8, correct=7, mistakes=1).startswith("kind 0: 1 of 8 was mistaken for kind 1.")
    assert sentence(assessed=8, correct=5, mistakes=2).startswith(
        "kind 0: 3 of 8 were not recognised, twice mistaken for kind 1."
    )
    assert sentence(assessed=1, correct=0, mistakes=1).startswith(
        "kind 0: its only photo was mistaken for kind 1."
    )
    assert sentence(assessed=1, correct=1, mistakes=0).startswith(
        "kind 0: its only photo was recognised, but with low confidence (50% on average); the most similar class is kind 1."
    )
