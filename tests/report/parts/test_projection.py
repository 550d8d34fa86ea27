"""The 2-D projection."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from filmtransfer.report.drawing import COLOURS, SHAPES, marker
from filmtransfer.report.parts import (
    projection,
)
from tests.report.small_report import LABELS, features


def test_the_map_keeps_far_classes_apart():
    z = features(LABELS, 0.05)
    points = projection.fit_axes(z, LABELS)(z)
    means = np.stack([points[c == LABELS].mean(0) for c in range(4)])
    within = max(np.linalg.norm(points[c == LABELS] - means[c], axis=1).max() for c in range(4))
    assert pdist(means).min() > within
    two = LABELS < 2
    axes = projection.fit_axes(z[two], LABELS[two])
    assert np.allclose(axes.directions @ axes.directions.T, np.eye(2), atol=1e-9)
    assert axes.share == pytest.approx(1)


def test_pictures_on_the_map_do_not_cover_each_other():
    points = np.random.default_rng(0).random((200, 2)) * 400
    chosen = projection.spread(points, 50, list(range(200)))
    apart = np.abs(points[chosen][:, None] - points[chosen]).max(2)
    np.fill_diagonal(apart, np.inf)
    assert len(chosen) > 10
    assert apart.min() >= 50


def test_every_class_has_its_own_marker():
    assert len({marker(k, 0, 0) for k in range(COLOURS * SHAPES)}) == COLOURS * SHAPES
