"""Secure sums and differential privacy in the rounds themselves."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.errors import InputError
from filmtransfer.federated.client import Client
from filmtransfer.federated.plan import Privacy
from tests.federated.tiny import PLAN, population, server

SECURE = replace(PLAN, secure=True, clients_per_round=4, rounds=1)


def test_the_secure_sum_is_the_plain_mean():
    plain = server(population(replace(SECURE, secure=False))).run()
    secure = server(population(SECURE)).run()
    assert np.abs(plain.psi - secure.psi).max() < 1e-6
    (line,) = secure.rounds
    assert line["examples"] == plain.rounds[0]["examples"]
    assert line["bytes_up"] > plain.rounds[0]["bytes_up"]


def test_a_client_that_drops_out_is_named_and_not_counted():
    found = population(SECURE)

    def client(i: int) -> Client:
        made = found.client(i)
        if i == 1:
            made.train = lambda *_: (_ for _ in ()).throw(InputError("its battery is empty."))
        return made

    (line,) = server(found, client=client).run().rounds
    assert line["examples"] == 3 * 9
    assert "battery" in line["missing"]["client-1"]


def test_too_few_for_a_secure_sum_end_the_federation():
    found = population(replace(SECURE, min_clients=4))

    def client(i: int) -> Client:
        made = found.client(i)
        if i:
            made.train = lambda *_: (_ for _ in ()).throw(InputError("not today."))
        return made

    from filmtransfer.federated.client_manager import FederationError

    with pytest.raises(FederationError, match="not today"):
        server(found, client=client).run()


@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_is_that_of_the_plan(secure):
    privacy = Privacy(clip=0.01, noise=2.0, delta=1e-3, epsilon=1e6)
    found = population(replace(SECURE, secure=secure, privacy=privacy))
    state = server(found).run()
    step = state.psi - found.start
    # Four clients, all drawn: the mean of clipped steps is at most 0.01 long, the noise is 2 · 0.01 / 4 a number.
    assert np.std(step) == pytest.approx(0.005, rel=0.05)
    assert np.array_equal(state.psi, server(found).run().psi), "a simulation can be repeated"


def test_without_noise_to_speak_of_it_is_the_mean_of_clipped_steps():
    privacy = Privacy(clip=0.05, noise=1e-9, delta=1e-3, epsilon=1e30)
    found = population(replace(SECURE, secure=False, privacy=privacy))
    expected = np.zeros(len(found.start))
    for i in range(4):
        step = found.client(i).round(found.plan, 1, {"psi": found.start})[0]["psi"] - found.start
        assert np.linalg.norm(step) > 0.05
        expected += step * (0.05 / np.linalg.norm(step)) / 4
    assert np.abs(server(found).run().psi - found.start - expected).max() < 1e-6


def test_it_stops_at_the_budget_and_remembers_what_it_spent(tmp_path):
    privacy = Privacy(clip=0.01, noise=5.0, delta=1e-3, epsilon=1.5)
    found = population(replace(SECURE, secure=False, rounds=50, privacy=privacy))
    said: list[str] = []
    state = server(found, tmp_path, say=said.append).run()
    assert 1 <= state.done < 50
    spent = [line["epsilon"] for line in state.rounds]
    assert spent == sorted(spent)
    assert spent[-1] <= 1.5
    assert any("beyond the budget" in text and "δ = 0.001" in text for text in said)
    again = server(found, tmp_path, say=said.append).run()  # started again, it does not begin anew
    assert again.done == state.done
    assert json.loads(again.spent)["rounds"] == state.done
