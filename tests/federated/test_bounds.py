"""The paper's lower and upper bounds."""

from __future__ import annotations

import numpy as np
import pytest

from filmtransfer.federated.bounds import lower_bound, upper_bound
from filmtransfer.federated.parameters import get_parameters, set_parameters
from tests.federated.tiny import population


def test_the_lower_bound_trains_each_client_alone():
    clients = population()
    result = lower_bound(clients, steps=2)
    total = np.zeros(len(clients.start))
    for i in range(len(clients)):
        set_parameters(clients.model, clients.start)
        client = clients.client(i)
        client.train(clients.plan, 1)
        own = clients.evaluate(get_parameters(clients.model))
        assert result["clients_accuracy"][i] == pytest.approx(own["clients_accuracy"][i])
        total += get_parameters(clients.model) / len(clients)
    assert result["accuracy"] == clients.evaluate(total.astype(np.float32))["accuracy"]


def test_the_upper_bound_trains_on_all_images():
    clients = population()
    result = upper_bound(clients, steps=2)
    assert np.abs(get_parameters(clients.model) - clients.start).max() > 1e-3
    assert len(result["clients_accuracy"]) == len(clients)
    assert result["personalized"] >= result["accuracy"], "fewer classes to choose from"


def test_without_steps_the_bounds_are_the_frozen_model():
    clients = population()
    frozen = clients.evaluate(clients.start)
    assert lower_bound(clients, steps=0)["personalized"] == frozen["personalized"]
    assert upper_bound(clients, steps=0)["accuracy"] == frozen["accuracy"]
