"""The rounds: equal to a plain loop, and robust against missing and faulty clients."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from filmtransfer.federated.client import Client, Examples
from filmtransfer.federated.client_manager import FederationError
from filmtransfer.federated.client_population import ClientPopulation
from filmtransfer.federated.completion import trained_clients
from filmtransfer.federated.parameters import get_parameters, set_parameters
from filmtransfer.seeding import make_generator, permutation
from filmtransfer.training.finetune.episodic import finetune
from tests.federated.tiny import (
    ALL,
    CONFIG,
    PLAN,
    make_server,
    population,
    read_images,
    unequal,
    with_failing_clients,
)


class FaultyClient(Client):
    """A client whose reply to a round goes through ``change`` first."""

    change = staticmethod(lambda arrays, metrics: (arrays, metrics))

    def train_round(self, plan, server_round, arrays):
        return self.change(*super().train_round(plan, server_round, arrays))


def with_faulty_client(change, index=2, plan=ALL):
    """Return clients of which one is faulty."""
    clients = population(plan)

    def client(i: int) -> Client:
        instance = clients.client(i)
        if i == index:
            instance.__class__ = FaultyClient
            instance.change = change
        return instance

    return clients, client


def change_psi(change):
    return lambda arrays, metrics: ({"psi": change(arrays["psi"])}, metrics)


def plain_loop(clients: ClientPopulation) -> tuple[np.ndarray, list[float]]:
    """FedAvg and FedProx without messages and strategies.

    The mean is that of the updates, in float64, as on the server: Adam's first step depends on little more than signs,
    and a ψ that differs in its last bit has other signs in the next round.
    """
    plan, psi, sums = clients.plan, clients.start.copy(), []
    for number in range(1, plan.rounds + 1):
        names = sorted(clients.names)
        order = permutation(len(names), make_generator(plan.seed, "clients", number, 0))
        chosen = sorted(names[i] for i in order[: plan.clients_per_round].tolist())
        examples = {name: len(clients.rows(clients.names.index(name))) for name in chosen}
        weights = {name: examples[name] / sum(examples.values()) for name in chosen}
        sums.append(sum(weights.values()))
        new = np.zeros(len(psi))
        for name in chosen:
            client = clients.client(clients.names.index(name))
            set_parameters(clients.model, psi)
            finetune(
                clients.model,
                client.examples.embed,
                client.examples.labels,
                plan.training_config(number),
                seed=make_generator(plan.seed, "client", name, number).initial_seed(),
                proximal_mu=plan.mu if plan.algorithm == "fedprox" else 0.0,
            )
            new += weights[name] * (get_parameters(clients.model) - psi).astype(np.float64)
        psi = (psi + new).astype(np.float32)
    return psi, sums


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["fedavg", "fedprox"])
@pytest.mark.parametrize("head", ["protonets", "lda", "cosine"])
def test_the_rounds_equal_a_plain_loop(algorithm, head):
    plan = replace(PLAN, algorithm=algorithm, head=head, mu=0.5)
    clients = unequal(ClientPopulation(CONFIG, plan, read_images))
    assert len({len(clients.rows(i)) for i in range(len(clients))}) > 1
    state = make_server(clients).run()
    expected, sums = plain_loop(clients)
    assert np.abs(state.psi - expected).max() < 1e-6
    assert np.abs(state.psi - clients.start).max() > 1e-3
    assert sums == pytest.approx([1, 1])


def test_one_round_is_the_weighted_mean_of_psi():
    clients = unequal(ClientPopulation(CONFIG, replace(PLAN, rounds=1), read_images))
    state = make_server(clients).run()
    (record,) = state.rounds
    total = np.zeros(len(state.psi))
    for name in record["clients"]:
        client = clients.client(clients.names.index(name))
        arrays, metrics = client.train_round(clients.plan, 1, {"psi": clients.start})
        total += metrics["num-examples"] / record["examples"] * arrays["psi"]
    assert np.abs(state.psi - total).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (change_psi(lambda psi: np.where(np.arange(len(psi)) < 7, np.nan, psi)), "7 of its parameters are not finite"),
        (change_psi(lambda psi: np.full_like(psi, np.inf)), "not finite"),
        (change_psi(lambda psi: psi[:-1]), "parameters instead of"),
        (change_psi(lambda psi: psi.reshape(1, -1)), "no vector"),
        (change_psi(lambda psi: psi + np.float32(1e6)), "changed a parameter by 1e"),
        (change_psi(lambda psi: psi.astype(np.float64)), "no vector of float32"),
        (change_psi(lambda psi: psi.astype(str)), "not one of plain numbers"),
        (lambda arrays, metrics: ({}, metrics), "no vector"),
        (lambda arrays, metrics: (arrays, {}), "has no num-examples"),
        (lambda arrays, metrics: (arrays, metrics | {"num-examples": 0}), "cannot have trained on"),
        (lambda arrays, metrics: (arrays, metrics | {"num-examples": -5}), "cannot have trained on"),
        (lambda arrays, metrics: (arrays, metrics | {"num-examples": float("nan")}), "cannot have trained on"),
    ],
)  # fmt: skip
def test_an_implausible_reply_is_refused_and_its_sender_named(change, reason):
    clients, client = with_faulty_client(change)
    log: list[str] = []
    state = make_server(clients, client=client, log=log.append).run()
    (record,) = state.rounds
    assert list(record["refused"]) == ["client-2"]
    assert reason in record["refused"]["client-2"]
    assert any("client-2" in text and reason in text for text in log)
    complete = make_server(clients).run()
    assert record["examples"] == complete.rounds[0]["examples"] - len(clients.rows(2))
    assert np.isfinite(state.psi).all()


def test_no_client_weighs_more_than_the_images_that_it_described():
    clients, client = with_faulty_client(
        lambda arrays, metrics: (arrays, metrics | {"num-examples": 10_000_000})
    )
    honest = make_server(clients).run()
    state = make_server(clients, client=client).run()
    assert state.rounds[0]["examples"] == honest.rounds[0]["examples"]
    np.testing.assert_array_equal(state.psi, honest.psi)


def test_a_round_continues_without_a_failing_client():
    clients = population(ALL)
    client = with_failing_clients(clients, {1}, "its disk is full.")
    (record,) = make_server(clients, client=client).run().rounds
    assert record["refused"] == {"client-1": "its disk is full."}
    assert record["contributed"] == ["client-0", "client-2", "client-3"]


def test_a_client_that_fails_first_and_contributes_in_the_repeated_round_has_trained():
    clients = population(replace(ALL, min_clients=4))
    failing = {3}
    client = with_failing_clients(clients, failing, "not yet.", failing.clear)
    state = make_server(clients, client=client).run()
    (record,) = state.rounds
    assert record["examples"] == 36
    assert record["contributed"] == clients.names
    assert record["refused"] == {}
    assert trained_clients(state) == clients.names


@pytest.mark.slow
def test_a_round_with_too_few_replies_is_repeated_and_then_stopped(tmp_path):
    clients = population(replace(ALL, min_clients=4, rounds=2))
    tries: list[int] = []
    client = with_failing_clients(clients, {3}, "not today.", lambda: tries.append(1))
    with pytest.raises(
        FederationError, match=r"fewer than 4 usable replies 3 times.*client-3: not today"
    ) as caught:
        make_server(clients, tmp_path, client=client).run()
    assert len(tries) == 3
    assert "start again" in caught.value.hint
    state = make_server(clients, tmp_path).run()  # once the client is repaired, the federation is resumed
    assert state.done == 2


def test_clients_with_one_class_or_one_image_per_class_do_not_train():
    clients = population(ALL)

    def client(i: int) -> Client:
        faulty = clients.client(i)
        own = faulty.examples
        if i == 0:
            rows = torch.nonzero(own.labels == 0).flatten()
            faulty.examples = Examples(own.embed.select(rows), own.labels[rows], own.classes[:1])
        if i == 1:
            rows = torch.tensor([int(torch.nonzero(own.labels == c)[0]) for c in range(3)])
            faulty.examples = Examples(own.embed.select(rows), own.labels[rows], own.classes)
        return faulty

    server = make_server(clients, client=client)
    (record,) = server.run().rounds
    assert "one class only" in record["refused"]["client-0"]
    assert "one image of each class" in record["refused"]["client-1"]
    summed = server.collect_statistics(clients.start)  # their images still count
    assert int(summed.statistics.counts.sum()) == 3 + 3 + 2 * 9
    assert len(summed.classes) == 10  # client-0 has one class instead of three
    assert summed.clients == clients.names


def test_a_round_uses_fewer_clients_if_there_are_no_more():
    log: list[str] = []
    plan = replace(PLAN, rounds=2, clients_per_round=9)
    first, second = make_server(population(plan), log=log.append).run().rounds
    assert len(first["clients"]) == len(second["clients"]) == 4
    assert log.count("The plan has 9 clients per round, and 4 are connected: all of them take part.") == 1


def test_a_plan_of_all_clients_takes_those_that_are_connected():
    log: list[str] = []
    plan = replace(PLAN, rounds=1, clients_per_round=0)
    (record,) = make_server(population(plan), log=log.append).run().rounds
    assert len(record["clients"]) == 4
    assert log[:2] == [
        "4 clients with 36 images of 12 classes: client-0, client-1, client-2, client-3.",
        "One round with all connected clients.",
    ]


def test_a_plan_without_steps_has_no_loss():
    """It used to be nan, which is no JSON either."""
    plan = replace(ALL, training=ALL.training.override(steps=0))
    (record,) = make_server(population(plan)).run().rounds
    assert "loss" not in record
    assert record["examples"] == 36


@pytest.mark.parametrize("loss", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_is_not_recorded(loss):
    clients, client = with_faulty_client(lambda arrays, metrics: (arrays, metrics | {"loss": loss}))
    (record,) = make_server(clients, client=client).run().rounds
    assert math.isfinite(record["loss"])
    assert not record["refused"]
