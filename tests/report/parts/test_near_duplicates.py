"""Near-duplicates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from filmtransfer.report.parts import (
    near_duplicates,
)
from filmtransfer.report.pictures import EmbeddedPictures
from tests.report.small_report import LABELS, features, photos, report_data


def test_near_duplicates_with_different_labels_come_first():
    z = features(LABELS)
    z[9] = z[8] + 0.02 * np.random.default_rng(1).normal(size=16)  # nearly the same, one label
    z[16] = z[0] * 1.5  # the same direction, two labels
    digests = [str(i) for i in range(32)]
    digests[31] = digests[30]  # the same pixels
    found = near_duplicates.find(z, LABELS, digests)
    assert [(t.first, t.second) for t in found] == [(0, 16), (30, 31), (8, 9)]
    assert [t.labels_differ for t in found] == [True, False, False]
    assert [t.identical for t in found] == [True, True, False]


def test_different_photos_are_no_near_duplicates():
    assert near_duplicates.find(features(LABELS), LABELS, [str(i) for i in range(32)]) == []
    assert near_duplicates.find(features(LABELS)[:1], LABELS[:1], [""]) == []
    assert near_duplicates.find(features(LABELS)[:2], LABELS[:2], ["", ""]) == []


def test_similar_photos_of_one_class_are_no_near_duplicates():
    spread = np.where(LABELS == 3, 0.02, 0.35)[:, None]
    z = features(LABELS, 0.0) + spread * np.random.default_rng(2).normal(size=(32, 16))
    assert near_duplicates.find(z, LABELS, [str(i) for i in range(32)]) == []


def test_test_photos_in_the_training_set_are_named():
    z = features(LABELS)
    about = report_data(LABELS, z, kind="test")
    fresh = features(LABELS, seed=7)
    fresh[4] = z[11]
    assert near_duplicates.leaked(z, fresh) == [(4, 11)]
    section = near_duplicates.section(replace(about, photos=photos(LABELS, fresh)), EmbeddedPictures())
    assert section is not None
    assert "also in the training set" in section.body
    assert "also in the training set" in section.advice[0]
