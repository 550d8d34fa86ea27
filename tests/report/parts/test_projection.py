"""The 2-D projection."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.report.drawing import COLOURS, SHAPES, marker
from filmtransfer.report.parts import (
    projection,
)
from tests.report.small_report import LABELS, features


def test_the_map_keeps_far_classes_apart():
    z = features(LABELS, 0.05)
    points = projection.fit_axes(z, LABELS)(z)
    means = torch.stack([points[c == LABELS].mean(0) for c in range(4)])
    within = max(float((points[c == LABELS] - means[c]).norm(dim=1).max()) for c in range(4))
    assert float(torch.pdist(means).min()) > within
    two = LABELS < 2
    axes = projection.fit_axes(z[two], LABELS[two])
    assert torch.allclose(axes.directions @ axes.directions.T, torch.eye(2, dtype=torch.float64), atol=1e-9)
    assert axes.share == pytest.approx(1)


def test_pictures_on_the_map_do_not_cover_each_other():
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 400
    chosen = projection.spread(points, 50, list(range(200)))
    apart = (points[chosen][:, None] - points[chosen][None]).abs().max(2).values
    apart.fill_diagonal_(1e9)
    assert len(chosen) > 10
    assert float(apart.min()) >= 50


def test_every_class_has_its_own_marker():
    assert len({marker(k, 0, 0) for k in range(COLOURS * SHAPES)}) == COLOURS * SHAPES
