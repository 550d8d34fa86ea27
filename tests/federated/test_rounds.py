"""The rounds against a plain loop, and resumed against uninterrupted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.errors import UpdateFileError, UsageError
from filmtransfer.federated.checkpoint import Checkpoint
from filmtransfer.federated.client_population import ClientPopulation
from filmtransfer.federated.parameters import read, write
from filmtransfer.seeding import make_generator, permutation
from filmtransfer.training.finetune.episodic import finetune
from tests.federated.tiny import PLAN, SCENE, population, read_images, server, unequal


def plain_loop(found: ClientPopulation) -> tuple[np.ndarray, list[float]]:
    """FedAvg and FedProx as they are written down: no messages, no strategies.

    The mean is taken of steps, in float64, as the server does: Adam's first step is little more than a sign, and a ψ
    that differs in its last bit has other signs in the next round.
    """
    plan, psi, sums = found.plan, found.start.copy(), []
    for number in range(1, plan.rounds + 1):
        names = sorted(found.names)
        order = permutation(len(names), make_generator(plan.seed, "clients", number, 0))
        chosen = sorted(names[i] for i in order[: plan.clients_per_round].tolist())
        examples = {name: len(found.rows(found.names.index(name))) for name in chosen}
        weights = {name: examples[name] / sum(examples.values()) for name in chosen}
        sums.append(sum(weights.values()))
        new = np.zeros(len(psi))
        for name in chosen:
            client = found.client(found.names.index(name))
            write(found.model, psi)
            finetune(
                found.model,
                client.examples.embed.pixels,
                client.examples.labels,
                plan.training_config(number),
                seed=make_generator(plan.seed, "client", name, number).initial_seed(),
                embed=client.examples.embed,
                pull=plan.mu if plan.algorithm == "fedprox" else 0.0,
            )
            new += weights[name] * (read(found.model) - psi).astype(np.float64)
        psi = (psi + new).astype(np.float32)
    return psi, sums


@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox"])
@pytest.mark.parametrize("head", ["protonets", "lda"])
def test_flower_is_a_plain_loop(algorithm, head):
    plan = replace(PLAN, algorithm=algorithm, head=head, mu=0.5)
    found = unequal(ClientPopulation(SCENE, plan, read_images))
    assert len({len(found.rows(i)) for i in range(len(found))}) > 1
    state = server(found).run()
    expected, sums = plain_loop(found)
    assert np.abs(state.psi - expected).max() < 1e-6
    assert np.abs(state.psi - found.start).max() > 1e-3
    assert sums == pytest.approx([1, 1])


def test_one_round_is_the_weighted_mean_of_psi():
    found = unequal(ClientPopulation(SCENE, replace(PLAN, rounds=1), read_images))
    state = server(found).run()
    (line,) = state.rounds
    total = np.zeros(len(state.psi))
    for name in line["clients"]:
        client = found.client(found.names.index(name))
        arrays, metrics = client.round(found.plan, 1, {"psi": found.start})
        total += metrics["num-examples"] / line["examples"] * arrays["psi"]
    assert np.abs(state.psi - total).max() < 1e-6


@pytest.mark.parametrize("change", [{}, {"compression": "int8"}, {"head": "lda", "algorithm": "median"}])
def test_stopped_and_started_again_it_ends_with_the_same_bits(change, tmp_path):
    plan = PLAN.with_choices(rounds=3, **change)
    whole = server(population(plan, SCENE), tmp_path / "whole", state=True).run()
    halves = tmp_path / "halves"
    for rounds in (1, 2):
        server(population(replace(plan, rounds=rounds), SCENE), halves, state=True).run()
    resumed = server(population(plan, SCENE), halves, state=True).run()
    assert np.array_equal(whole.psi, resumed.psi)
    lines = [(tmp_path / name / "rounds.jsonl").read_text().splitlines() for name in ("whole", "halves")]
    assert len(lines[0]) == 4  # the first is of before the first round
    for one, other in zip(*lines, strict=True):
        known = json.loads(one)  # where the halves ended they were measured too
        assert {k: v for k, v in json.loads(other).items() if k in known} == known


def test_a_finished_federation_is_left_as_it_is(tmp_path):
    server(population(), tmp_path).run()
    before = (tmp_path / "checkpoint.npz").read_bytes()
    said: list[str] = []
    state = server(population(), tmp_path, say=said.append).run()
    assert state.done == PLAN.rounds
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    assert said == []


def test_a_folder_of_another_plan_is_refused(tmp_path):
    server(population(), tmp_path).run()
    with pytest.raises(UsageError, match="differs in learning_rate, seed"):
        Checkpoint.load(tmp_path, PLAN.with_choices(learning_rate=0.5, seed=3))
    assert Checkpoint.load(tmp_path, replace(PLAN, rounds=9, timeout=1.0)) is not None


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 half a file"])
def test_a_damaged_checkpoint_is_said(content, tmp_path):
    (tmp_path / "checkpoint.npz").write_bytes(content)
    with pytest.raises(UpdateFileError, match="not a checkpoint"):
        Checkpoint.load(tmp_path, PLAN)


def test_the_learning_rate_decays_by_rounds():
    plan = PLAN.with_choices(learning_rate=1.0, decay=0.3, decay_every=20)
    assert [plan.rate(r) for r in (1, 20, 21, 41)] == pytest.approx([1, 1, 0.3, 0.09])
    assert replace(plan, decay_every=0).rate(100) == 1.0
