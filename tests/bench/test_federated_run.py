"""Federated runs of a recipe: the federation and its bounds on the sample drawings."""

from __future__ import annotations

import pytest

from filmtransfer.bench.federated_run import run


@pytest.mark.parametrize("bound", ["federated", "lower", "upper"])
def test_a_run_of_a_benchmark(bound, tmp_path):
    settings = {
        "dataset": "sample", "protocol": "federated", "clients": 4, "ways": 3, "shots": 3, "bound": bound,
        "bound_steps": 1, "rounds": 2, "clients_per_round": 3, "steps": 1, "image_size": 32, "film_from": 5,
        "support_size": 20, "max_query": 20, "test_images": 40, "method": "FiT-ProtoNets", "head": "protonets",
        "seed": 0, "backbone": "efficientnet_lite0", "preset": "small",
    }  # fmt: skip
    found = run(settings, tmp_path)
    assert 0 < found["accuracy"] <= 1
    assert len(found["clients_accuracy"]) == 4
    if bound == "federated":
        assert [point["round"] for point in found["curve"]] == [0, 1, 2]
        assert found["parameters"] == 2 * found["parameters_per_round"] == 2 * 2 * 3 * found["updateable"]
        assert found["curve"][-1]["bytes"] == found["bytes_up"] + found["bytes_down"]
