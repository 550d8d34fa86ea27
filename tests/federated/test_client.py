"""The client: unknown messages and error feedback."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import RecordDict

from filmtransfer.errors import InputError
from filmtransfer.federated import messages
from filmtransfer.federated.client import respond
from filmtransfer.federated.completion import complete
from filmtransfer.federated.compression import compress, decompress
from filmtransfer.federated.parameters import get_parameters
from filmtransfer.training.finetune.loop import History
from tests.federated.tiny import ALL, PLAN, make_server, population, with_test_images


def test_an_unknown_message_is_refused():
    client = population().client(0)
    with pytest.raises(InputError, match=r"does not know the message train\.other"):
        client.handle("train.other", messages.make_request(PLAN), RecordDict(), 1)


@pytest.mark.parametrize("number", [-(10**6), -50, 0, 3, 10**9, True, 1.0, "1"])
def test_a_round_that_is_not_in_the_plan_is_refused(number):
    """Far outside of it the learning rate would be any number."""
    content = messages.make_request(replace(PLAN, decay_every=1), 1, {"psi": population().start})
    content["config"]["round"] = number
    for handle in (
        lambda client: client.handle(messages.TRAIN, content, RecordDict(), 1),
        lambda client: client.compute(content),
    ):
        with pytest.raises(InputError, match="does not have a round of 1 to 2"):
            handle(population().client(0))


def test_an_interrupted_training_is_no_result(monkeypatch):
    """Fine-tuning keeps what it has at Ctrl-C; a simulation has to end instead of going on with the next client."""

    def interrupted(*_, **__):
        return History(stopped="interrupted")

    monkeypatch.setattr("filmtransfer.federated.client.finetune", interrupted)
    with pytest.raises(KeyboardInterrupt):
        population().client(0).train(PLAN, 1)


def test_a_class_that_the_federation_does_not_have_is_named():
    client = population().client(0)
    with pytest.raises(InputError, match=f"no class {client.examples.classes[0]}"):
        client.statistics(client.examples.classes[1:], PLAN)


def test_error_feedback_sends_the_rounding_error_later(tmp_path):
    """Over the rounds, the received sum equals the intended one up to the last rounding error."""
    plan = replace(PLAN, compression="int8", rounds=4, clients_per_round=1, min_clients=1)
    clients = population(plan)
    clients.state = tmp_path
    client = clients.client(0)
    intended, received = np.zeros(len(clients.start)), np.zeros(len(clients.start))
    sizes = client.sizes
    for number in range(1, 5):
        sent = compress(np.zeros(len(clients.start)), "int8", sizes)
        compressed, _ = client.train_round(plan, number, sent)
        trained = get_parameters(clients.model)
        intended += trained - clients.start
        received += decompress(compressed, "int8", sizes)
        residual = client._residuals()[number]
        assert np.abs(intended - (received + residual)).max() < 1e-5
        again, _ = client.train_round(plan, number, sent)  # a round that is repeated is the same
        assert np.array_equal(again["psi"], compressed["psi"])
    assert sorted(client._residuals()) == [3, 4]


# What a client reports to its user.


def logs_of(plan, on=None, tests=None):
    """Return what the first client of a federation logs, whose clients may have test images."""
    clients = population(plan)
    log: list[str] = []
    make = with_test_images(clients, tests or {})

    def client(i):
        instance = make(i)
        if i == 0:
            instance.log = log.append
            if on:
                on(instance)
        return instance

    server = make_server(clients, client=client)
    server.evaluate_fn = None
    complete(server, server.run())
    return log


def test_a_client_reports_each_round_with_its_loss_and_accuracy():
    plan = replace(ALL, rounds=2, evaluate_every=1)
    log = [re.sub(r"\d+(\.\d+)?%", "N%", re.sub(r"loss \d\.\d+", "loss N", line)) for line in logs_of(plan)]
    accuracy = "personalized accuracy N% on 9 images (leave-one-out)."
    assert log == [
        "Reporting the classes and their numbers of images.",
        f"Before the first round: {accuracy}",
        "Round 1 of 2: training on 9 images.",
        "Round 1 of 2: loss N after 2 steps.",
        f"Round 1 of 2: {accuracy}",
        "Round 2 of 2: training on 9 images.",
        "Round 2 of 2: loss N after 2 steps.",
        f"Round 2 of 2: {accuracy}",
        "Summing the statistics of the images.",
        "Summing the scores of images for the calibration.",
    ]


def test_with_secure_aggregation_a_client_reports_each_sum_once():
    log = logs_of(replace(ALL, secure=True))
    assert [line for line in log if "loss" not in line] == [
        "Reporting the classes and their numbers of images.",
        "Round 1 of 1: training on 9 images for a masked sum.",
        "Summing the statistics of the images, masked.",
        "Summing the scores of images for the calibration, masked.",
    ]


def test_an_accuracy_on_test_images_is_not_called_leave_one_out():
    log = logs_of(replace(ALL, evaluate_every=1), tests={0: 5})
    assert sum("personalized accuracy" in line and line.endswith("on 5 images.") for line in log) == 2


@pytest.mark.parametrize("secure", [False, True])
def test_with_secure_aggregation_a_refusal_has_no_details_of_the_images(secure):
    """Its reason may depend on them, as of features that are not finite."""
    plan = replace(ALL, secure=secure)
    client = population(plan).client(0)
    log: list[str] = []
    client.log = log.append
    client.features = lambda: (_ for _ in ()).throw(InputError("The features of 3 images are not finite."))
    content = messages.make_request(plan, 1, {"psi": population(plan).start}, classes=client.examples.classes)
    reply = respond(client, messages.STATISTICS, content, RecordDict(), 1)
    assert ("3 images" in messages.read_refusal(reply)) is not secure
    assert (messages.read_refusal(reply) == messages.UNSPECIFIED) is secure
    assert "3 images" in log[-1]


def test_a_client_reports_why_it_refuses():
    def on(client):
        client.train = refuse

    def refuse(*_):
        raise InputError("its disk is full.")

    assert "The request is refused: its disk is full." in logs_of(ALL, on=on)
