"""The cosine head against its formula, finite differences, and features of any length."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from filmtransfer.heads import Cosine


def problem(rng):
    labels = torch.tensor([0, 0, 1, 1, 2, 0])
    return torch.tensor(rng.normal(1, 1, (6, 4))), labels, torch.tensor(rng.normal(1, 1, (3, 4)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logits_are_scaled_cosines(rng, dtype):
    z, y, q = problem(rng)
    logits = Cosine((7.0,)).to(dtype).configure(z.to(dtype), y).logits(q.to(dtype)).detach()
    for i, row in enumerate(q.numpy()):
        for c in range(3):
            mean = z[y == c].mean(0).numpy()
            cosine = row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)
            assert logits[i, c].item() == pytest.approx(7 * cosine, rel=1e-5)


def test_lengths_do_not_count(rng):
    z, y, q = problem(rng)
    head = Cosine().to(torch.float64).configure(z, y)
    torch.testing.assert_close(head.logits(q), head.logits(50 * q))
    torch.testing.assert_close(head.logits(q), Cosine().to(torch.float64).configure(50 * z, y).logits(q))


def test_gradients_are_those_of_finite_differences(rng):
    z, y, q = (t.requires_grad_() if t.is_floating_point() else t for t in problem(rng))
    head = Cosine((3.0,)).to(torch.float64)

    def logits(z, q, log):
        head.weights.values = lambda: log.exp()
        return head.evaluate(head.build(z, y), q)

    log = head.weights.log.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(logits, (z, q, log), atol=1e-6)


def test_counts():
    assert Cosine.updateable(10, 2048) == 20_481
