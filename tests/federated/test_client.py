"""The client: unknown messages and error feedback."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import RecordDict

from filmtransfer.errors import InputError
from filmtransfer.federated import messages
from filmtransfer.federated.compression import compress, decompress
from filmtransfer.federated.parameters import get_parameters
from filmtransfer.training.finetune.loop import History
from tests.federated.tiny import PLAN, population


def test_an_unknown_message_is_refused():
    client = population().client(0)
    with pytest.raises(InputError, match=r"does not know the message train\.other"):
        client.handle("train.other", messages.make_request(PLAN), RecordDict(), 1)


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
