"""The confusion matrix and its photos."""

from __future__ import annotations

import numpy as np

from filmtransfer.report.parts import (
    confusion,
)
from filmtransfer.report.pictures import EmbeddedPictures
from tests.report.small_report import LABELS, features, photos, report_data


def test_confusion_counts_every_photo_once():
    about = report_data(LABELS, features(LABELS, 1.2))
    assert about.predictions is not None
    matrix = about.predictions.evaluation.confusion
    assert int(matrix.sum()) == 32
    wrong = int((~about.predictions.correct).sum())
    assert 0 < wrong == sum(len(rows) for _, _, rows in confusion.confused_pairs(about.predictions))
    section = confusion.section(about, EmbeddedPictures())
    assert section is not None
    assert section.body.count('scope="row"') == 4


def test_a_large_confusion_matrix_keeps_the_confused_classes():
    matrix = np.eye(40, dtype=np.int64) * 5
    matrix[30, 7] = 2
    chosen = confusion.shown_classes(matrix, 5)
    assert len(chosen) == 5
    assert {7, 30} <= set(chosen)
    assert chosen == sorted(chosen)


def test_the_typical_photo_has_the_direction_of_the_mean():
    z = np.array([[1.0, 0.0], [1.0, 1.0], [0.1, 1.0], [-1.0, 0.0]])
    assert confusion.typical_photos(photos(np.array([0, 0, 0, 1]), z, False), 3) == [1, 3, None]
