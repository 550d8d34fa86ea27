"""The evaluation of a deployed federation after each round."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from filmtransfer.errors import InputError
from filmtransfer.federated import messages
from filmtransfer.federated.client import Client, Examples
from filmtransfer.federated.client_population import ClientPopulation
from filmtransfer.federated.evaluation import ServerTest
from filmtransfer.federated.parameters import set_parameters
from filmtransfer.federated.plan import Plan, Privacy
from filmtransfer.federated.server import FederatedServer
from filmtransfer.heads import make_head
from filmtransfer.training.assess.leave_one_out import leave_one_out
from tests.federated.tiny import ALL, make_server, population, with_test_images

EVERY = replace(ALL, evaluate_every=1)


def deployed(clients: ClientPopulation, tests: dict[int, int] | None = None) -> FederatedServer:
    """Return a server that evaluates as in a deployment; ``tests`` are numbers of test images by client."""
    server = make_server(clients, client=with_test_images(clients, tests or {}))
    server.evaluate_fn = None
    return server


def test_the_accuracy_is_weighted_by_the_test_images():
    clients = population(EVERY)
    server = deployed(clients, {0: 2, 2: 7})
    (record,) = server.run().rounds
    accuracies = record["clients_accuracy"]
    assert list(accuracies) == ["client-0", "client-2"]
    assert record["evaluated_images"] == 9
    assert record["personalized"] == pytest.approx(
        (2 * accuracies["client-0"] + 7 * accuracies["client-2"]) / 9
    )
    assert record["leave_one_out"] is False


def test_without_test_images_it_is_that_of_leave_one_out():
    clients = population(EVERY)
    server = deployed(clients)
    state = server.run()
    (record,) = state.rounds
    assert record["leave_one_out"] is True
    assert record["evaluated_images"] == 36
    set_parameters(clients.model, state.psi)
    correct = 0
    for i in range(4):
        own = clients.client(i)
        features, labels = own.features().numpy(), own.examples.labels.numpy()
        result = leave_one_out(make_head("protonets"), features, labels)
        correct += int((result.logits.argmax(1) == labels).sum())
    assert record["personalized"] == pytest.approx(correct / 36)


@pytest.mark.parametrize(
    "plan", [replace(EVERY, secure=True), replace(EVERY, privacy=Privacy(0.1, 2.0, 0.01, 50.0))]
)
def test_training_images_of_single_clients_are_not_evaluated_where_they_are_protected(plan: Plan):
    server = deployed(population(plan))
    asked: list[str] = []
    exchange = server.transport.exchange

    def count(kind, requests, *rest):
        if requests:
            asked.append(kind)
        return exchange(kind, requests, *rest)

    server.transport.exchange = count
    statuses: list[str] = []
    server.on_status = statuses.append
    (record,) = server.run().rounds
    assert "personalized" not in record
    assert messages.EVALUATE not in asked
    assert statuses == ["Round 1 of 1: training on 4 clients"]


def test_an_evaluation_is_named_while_it_runs():
    server = deployed(population(EVERY))
    statuses: list[str] = []
    server.on_status = statuses.append
    server.run()
    assert statuses == [
        "Before the first round: evaluating",
        "Round 1 of 1: training on 4 clients",
        "Round 1 of 1: evaluating",
    ]


def server_test(clients: ClientPopulation, server: FederatedServer) -> ServerTest:
    """Return the test images of all classes, one of which the federation does not know."""
    embed = clients.test.select(torch.arange(len(clients.test_labels)))
    embed.model = server.model
    return ServerTest(Examples(embed, clients.test_labels, clients.classes))


def test_the_server_evaluates_the_global_classifier_on_its_own_images():
    clients = population(EVERY)
    server = deployed(clients)
    server.test = server_test(clients, server)
    state = server.run()
    (record,) = state.rounds
    assert record["test_images"] == 60
    assert record["accuracy"] == pytest.approx(clients.evaluate(state.psi)["accuracy"], abs=1 / 60 + 1e-9)
    assert "accuracy" in state.initial


@pytest.mark.parametrize("fault", ["refused", "statistics", "arrays"])
def test_one_client_without_statistics_does_not_cost_the_accuracy_on_the_servers_images(fault):
    """It is that of the classes which the others have."""
    clients = population(EVERY)

    def client(i: int) -> Client:
        instance = clients.client(i)
        handle = instance.handle

        def faulty(kind, *rest):
            reply = handle(kind, *rest)
            if i != 1 or kind != messages.EVALUATE:
                return reply
            if fault == "refused":
                raise InputError("its disk is full.")
            arrays = messages.read_arrays(reply)
            arrays["counts"][:] = 1e12
            return messages.make_reply("client-1", arrays if fault == "statistics" else {})

        instance.handle = faulty
        return instance

    log: list[str] = []
    server = make_server(clients, client=client, log=log.append)
    server.evaluate_fn = None
    server.test = server_test(clients, server)
    (record,) = server.run().rounds
    others = {name for i in (0, 2, 3) for name in clients.client(i).examples.classes}
    assert record["test_images"] == sum(clients.classes[c] in others for c in clients.test_labels.tolist())
    assert 0 < record["accuracy"] <= 1
    assert any("client-1" in line and "refused" in line for line in log)


@pytest.mark.parametrize("change", [{"head": "lda"}, {"secure": True}])
def test_large_or_protected_sums_are_not_sent_in_every_round(change):
    clients = population(replace(EVERY, **change))
    server = deployed(clients)
    server.test = server_test(clients, server)
    (record,) = server.run().rounds
    assert "accuracy" not in record


def test_images_of_classes_that_no_client_has_do_not_count():
    clients = population(EVERY)
    server = deployed(clients)
    known = [name for name in clients.classes if name != clients.classes[0]]
    test = server_test(clients, server)
    set_parameters(server.model, clients.start)
    features = clients.pool.features()
    rows = torch.cat([clients.rows(i) for i in range(4)])
    labels = clients.labels[rows]
    kept = labels > 0
    server.model.head.configure(features[rows][kept], labels[kept])
    accuracy, images = test.accuracy(server.model, known)
    assert images == int((clients.test_labels > 0).sum())
    assert 0 <= accuracy <= 1
    assert np.isfinite(accuracy)
