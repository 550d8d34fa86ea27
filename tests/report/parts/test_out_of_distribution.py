"""Out-of-distribution photos."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from filmtransfer.report.parts import (
    out_of_distribution,
)
from filmtransfer.report.pictures import EmbeddedPictures
from filmtransfer.report.report_data import OODPhotos
from tests.report.small_report import LABELS, features, photos, report_data


def test_out_of_distribution_photos_are_counted_on_both_sides_of_the_threshold():
    ood = OODPhotos(
        photos(np.zeros(5, np.int64), np.zeros((5, 4))),
        np.array([0.1, 0.2, 0.3, 0.8, 0.4]),
        np.array([0.9, 0.85, 0.45]),
        0.5,
        0.05,
    )
    assert (out_of_distribution.rejected(ood), out_of_distribution.false_alarms(ood)) == (4, 1)
    assert int(out_of_distribution.histogram(ood.scores, 0.1, 0.9).sum()) == 5
    section = out_of_distribution.section(
        replace(report_data(LABELS, features(LABELS), kind="test"), ood=ood), EmbeddedPictures()
    )
    assert section is not None
    assert "4 of 5 photos of something else" in section.body
    assert "1 of 3 test photos" in section.body
    assert "folder/003.jpg" in section.body
    assert "One photo of something else was not rejected" in section.advice[0]
