"""Aggregation: the strategies are those of their names, and robust ones resist false updates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.federated.aggregation import aggregate_train, check_update, outliers
from tests.federated.tiny import PLAN

UPDATES = {f"c{i}": np.full(6, 0.01 * i) for i in range(1, 6)}
EXAMPLES = dict.fromkeys(UPDATES, 3)


@pytest.mark.parametrize("algorithm", ["trimmed_mean", "median", "krum", "multikrum"])
def test_a_false_update_is_outvoted_and_named(algorithm):
    plan = replace(PLAN, algorithm=algorithm)
    updates = UPDATES | {"c6": np.full(6, 50.0)}
    check_update(updates["c6"])  # it is plausible
    result = aggregate_train(plan, 1, updates, EXAMPLES | {"c6": 300})
    assert 0.01 <= result.min() <= result.max() <= 0.05
    assert outliers(updates, result) == ["c6"]
    mean = aggregate_train(PLAN, 1, updates, EXAMPLES | {"c6": 300})
    assert mean.min() > 40, "the plain mean is misled"


def test_the_strategies_are_those_of_their_names():
    def aggregate(algorithm: str, **options: object) -> float:
        return float(aggregate_train(replace(PLAN, algorithm=algorithm, **options), 1, UPDATES, EXAMPLES)[0])

    assert aggregate("median") == pytest.approx(0.03)
    assert aggregate("trimmed_mean", trim=0.2) == pytest.approx(0.03)
    assert aggregate("krum") in [pytest.approx(0.01 * i) for i in range(1, 6)]
    weighted = aggregate_train(PLAN, 1, UPDATES, {"c1": 1, "c2": 2, "c3": 3, "c4": 4, "c5": 10})
    assert weighted[0] == pytest.approx(0.01 * (1 + 4 + 9 + 16 + 50) / 20)


def test_krum_distinguishes_small_differences():
    """In float32 the squares of ψ near 1 would hide them."""
    noise = np.random.default_rng(0)
    updates = {f"c{i}": 1e-5 * noise.standard_normal(20_000) for i in range(5)}
    updates["c5"] = 3e-5 * noise.standard_normal(20_000)
    result = aggregate_train(replace(PLAN, algorithm="krum"), 1, updates, dict.fromkeys(updates, 1))
    assert any(np.array_equal(result, updates[f"c{i}"]) for i in range(5))


def test_equal_updates_have_no_outliers():
    assert outliers({"a": np.zeros(3), "b": np.zeros(3)}, np.zeros(3)) == []
