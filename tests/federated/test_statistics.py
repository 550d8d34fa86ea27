"""Summed statistics as arrays: exact, and refused if they are not possible."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from filmtransfer.errors import InputError
from filmtransfer.federated.statistics import from_arrays, to_arrays
from filmtransfer.heads import LDA, Cosine, ProtoNets, Statistics


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("head", [ProtoNets, LDA, Cosine])
def test_summed_arrays_equal_pooled_features(head, dtype):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 7, generator=generator, dtype=getattr(torch, dtype)) + 3
    labels = torch.arange(30) % 4
    scatter = head.scatter
    parts = [
        Statistics.of(features[rows], labels[rows], 4, scatter)  # unequal, and not all with all classes
        for rows in (torch.arange(5), torch.arange(5, 8), torch.arange(8, 30))
    ]
    sent = [to_arrays(part) for part in parts]
    total = {name: sum(part[name] for part in sent) for name in sent[0]}
    back = from_arrays(total, 4, 7, scatter)
    one = head().match(features).configure(features, labels).logits(features)
    other = head().match(features).configure_from(replace(back, dtype=dtype)).logits(features)
    assert (one - other).abs().max() < (1e-10 if dtype == "float64" else 1e-3)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: a | {"sums": a["sums"][:, :-1]}, "shapes"),
        (lambda a: {"counts": a["counts"]}, "shapes"),
        (lambda a: a | {"sums": a["sums"] * np.nan}, "not finite"),
        (lambda a: a | {"counts": a["counts"] - 99}, "integers"),
        (lambda a: a | {"counts": a["counts"] + 0.5}, "integers"),
    ],
)
def test_impossible_statistics_are_refused(change, reason):
    arrays = to_arrays(Statistics.of(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]), 2, "none"))
    with pytest.raises(InputError, match=reason):
        from_arrays(change(arrays), 2, 3, "none")
