"""Distances against the covariance written out, and the nearest photos."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from filmtransfer.heads import make_head
from filmtransfer.model import Support
from filmtransfer.model.explanation import explain


def kept(features, labels):
    count = len(labels)
    return Support(
        features,
        labels,
        torch.ones(count, dtype=torch.bool),
        [f"photo {i}" for i in range(count)],
        [""] * count,
    )


@pytest.mark.parametrize("name", ["lda", "qda", "protonets"])
@pytest.mark.parametrize("shape", [(12, 30), (40, 8)])  # fewer images than features, and more
def test_distances_are_mahalanobis(name, shape):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(*shape, generator=generator)
    labels = torch.arange(shape[0]) % 3
    head = make_head(name)
    query = torch.randn(4, shape[1], generator=generator)
    z = features.double().numpy()
    sigma = np.eye(shape[1])
    if name != "protonets":
        *_, task, ridge = head.weights.values().detach().double().numpy()
        sigma = task * np.cov(z.T) + ridge * np.eye(shape[1])
    inverse = np.linalg.inv(sigma)
    for row, found in zip(query.double().numpy(), explain(head, kept(features, labels), query), strict=True):
        for c in range(3):
            d = row - z[labels.numpy() == c].mean(0)
            assert found.distances[c] == pytest.approx(np.sqrt(d @ inverse @ d), rel=1e-6)
        far = [np.sqrt((row - x) @ inverse @ (row - x)) for x in z]
        assert [i for i, _ in found.nearest] == np.argsort(far)[:3].tolist()
        assert [f for _, f in found.nearest] == pytest.approx(np.sort(far)[:3], rel=1e-6)
