"""Flower's simulation engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.federated.simulation import simulate
from tests.federated.tiny import CONFIG, PLAN, read_images


@pytest.mark.process(seconds=20)
def test_flowers_engine_gives_the_same_bits(tmp_path):
    """Clients as Ray actors, in processes of their own."""
    config = replace(CONFIG, clients=3, ways=4)
    plan = replace(PLAN, compression="int8", clients_per_round=2)
    in_process = simulate(config, plan, read_images, folder=tmp_path / "in_process")
    on_flower = simulate(config, plan, read_images, folder=tmp_path / "on_flower", engine="flower")
    assert np.array_equal(in_process.state.psi, on_flower.state.psi)
    for one, other in zip(in_process.state.rounds, on_flower.state.rounds, strict=True):
        for name in one:
            if name.startswith("bytes_"):  # Flower's ids of nodes and messages are longer
                assert one[name] < other[name] < one[name] + 1_000
            else:
                assert one[name] == other[name], name
