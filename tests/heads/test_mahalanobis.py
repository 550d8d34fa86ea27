"""Simple CNAPs' head against its formula written plainly, and both ways of computing it against each other."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.heads import QDA
from filmtransfer.heads.mahalanobis import Mahalanobis
from filmtransfer.seeding import make_generator


def plainly(features, labels, query):
    """−(z − μ)ᵀ (λΣ_c + (1 − λ)Σ + I)⁻¹ (z − μ), with numpy's idea of a covariance."""
    columns = []
    task = torch.cov(features.T)
    for c in torch.unique(labels).tolist():
        own = features[labels == c]
        trust = len(own) / (len(own) + 1)
        cov = torch.cov(own.T) if len(own) > 1 else torch.zeros_like(task)
        q = trust * cov + (1 - trust) * task + torch.eye(features.shape[1], dtype=features.dtype)
        d = query - own.mean(0)
        columns.append(-(d @ torch.linalg.inv(q) * d).sum(1))
    return torch.stack(columns, 1)


def draw(counts, width, seed=0, dtype=torch.float64):
    generator = make_generator(seed, "maha")
    labels = torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts))
    features = torch.randn(len(labels), width, generator=generator, dtype=dtype) * 3 + labels[:, None]
    return features, labels, torch.randn(7, width, generator=generator, dtype=dtype)


@pytest.mark.parametrize("side", ["rows", "columns"])
@pytest.mark.parametrize(("counts", "width"), [([4, 4, 4], 20), ([1, 5, 2], 30), ([9, 12], 6), ([1, 1], 5)])
def test_both_sides_are_the_formula(side, counts, width):
    features, labels, query = draw(counts, width)
    head = Mahalanobis(side=side).configure(features, labels)
    assert torch.allclose(head.logits(query), plainly(features, labels, query), rtol=1e-9, atol=1e-9)


def test_float32_is_close_and_gradients_agree():
    grads = []
    for side in ("rows", "columns"):
        features, labels, query = draw([3, 5], 12)
        features.requires_grad_()
        state = Mahalanobis(side=side).build(features, labels)
        Mahalanobis(side=side).evaluate(state, query).log_softmax(1)[:, 0].sum().backward()
        grads.append(features.grad)
    assert torch.allclose(*grads, rtol=1e-8, atol=1e-10)
    features, labels, query = draw([3, 5], 12, dtype=torch.float32)
    close = Mahalanobis().configure(features, labels).logits(query)
    exact = plainly(features.double(), labels, query.double())
    assert torch.allclose(close.double(), exact, rtol=1e-4)


def test_it_is_twice_qda_without_its_determinant():
    features, labels, query = draw([4, 4], 6)
    trust = 4 / 5
    qda = QDA((trust, 1 - trust, 1.0), side="columns").to(torch.float64).configure(features, labels)
    log_det = 2 * torch.log(torch.diagonal(qda.configured().cholesky, dim1=-2, dim2=-1)).sum(-1)
    ours = Mahalanobis().configure(features, labels).logits(query)
    assert torch.allclose(ours, 2 * qda.logits(query) + log_det, rtol=1e-6)


@pytest.mark.parametrize(("counts", "width"), [([4, 3], 20), ([9, 12], 6)])
def test_what_is_stored_is_the_same_head(counts, width):
    features, labels, query = draw(counts, width)
    head = Mahalanobis().configure(features, labels)
    again = Mahalanobis().restore(head.tensors(), torch.tensor(counts))
    assert torch.allclose(again.logits(query), head.logits(query))


def test_the_papers_count():
    """7.63 million numbers for the 158 objects of ORBIT's 17 test users on EfficientNet-B0."""
    assert round(Mahalanobis.updateable(158, 1280) / 17 / 1e6, 2) == 7.63
