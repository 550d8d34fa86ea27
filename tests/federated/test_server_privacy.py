"""Secure aggregation and differential privacy in the rounds."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.errors import InputError, UsageError
from filmtransfer.federated import messages
from filmtransfer.federated.checkpoint import Checkpoint
from filmtransfer.federated.client import Client
from filmtransfer.federated.client_manager import FederationError
from filmtransfer.federated.completion import trained_clients
from filmtransfer.federated.plan import Privacy
from filmtransfer.federated.privacy import Accountant, noisy_mean
from tests.federated.tiny import PLAN, make_server, population, with_failing_clients

SECURE = replace(PLAN, secure=True, clients_per_round=4, rounds=1)


@pytest.mark.slow
def test_the_secure_sum_is_the_plain_mean():
    plain = make_server(population(replace(SECURE, secure=False))).run()
    secure = make_server(population(SECURE)).run()
    assert np.abs(plain.psi - secure.psi).max() < 1e-6
    (record,) = secure.rounds
    assert record["examples"] == plain.rounds[0]["examples"]
    assert record["bytes_up"] > plain.rounds[0]["bytes_up"]


def test_a_client_that_drops_out_is_named_and_not_counted():
    clients = population(SECURE)
    client = with_failing_clients(clients, {1}, "its battery is empty.")
    (record,) = make_server(clients, client=client).run().rounds
    assert record["examples"] == 3 * 9
    assert record["missing"]["client-1"] == f"refused 'masked': {messages.UNSPECIFIED}"
    assert record["contributed"] == ["client-0", "client-2", "client-3"]


def test_a_client_that_fails_after_sending_its_masked_update_has_trained():
    clients = population(SECURE)

    def client(i: int) -> Client:
        instance = clients.client(i)
        handle = instance.handle

        def fail_at_the_end(kind, *rest):
            if i == 1 and kind == messages.SECURE + "unmask":
                raise InputError("its battery is empty.")
            return handle(kind, *rest)

        instance.handle = fail_at_the_end
        return instance

    state = make_server(clients, client=client).run()
    (record,) = state.rounds
    assert record["examples"] == 4 * 9
    assert record["contributed"] == clients.names
    assert record["missing"] == {}
    assert trained_clients(state) == clients.names


@pytest.mark.parametrize("secure", [False, True])
def test_contributors_are_recorded_with_differential_privacy(secure):
    privacy = Privacy(clip=0.01, noise=2.0, delta=1e-3, epsilon=1e6)
    clients = population(replace(SECURE, secure=secure, privacy=privacy))
    client = with_failing_clients(clients, {1}, "its battery is empty.")
    (record,) = make_server(clients, client=client).run().rounds
    assert record["contributed"] == ["client-0", "client-2", "client-3"]


def test_too_few_clients_for_a_secure_sum_stop_the_federation():
    clients = population(replace(SECURE, min_clients=4))
    client = with_failing_clients(clients, {1, 2, 3}, "not today.")
    with pytest.raises(FederationError, match=f"client-1: refused 'masked': {messages.UNSPECIFIED}"):
        make_server(clients, client=client).run()


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True])
def test_the_noise_is_that_of_the_plan(secure):
    privacy = Privacy(clip=0.01, noise=2.0, delta=1e-3, epsilon=1e6)
    clients = population(replace(SECURE, secure=secure, privacy=privacy))
    state = make_server(clients).run()
    update = state.psi - clients.start
    # Four clients, all drawn: the mean of clipped updates has a norm of at most 0.01, the noise is 2 · 0.01 / 4.
    assert np.std(update) == pytest.approx(0.005, rel=0.05)
    assert np.array_equal(state.psi, make_server(clients).run().psi), "a simulation is reproducible"


def test_with_negligible_noise_it_is_the_mean_of_clipped_updates():
    privacy = Privacy(clip=0.05, noise=1e-9, delta=1e-3, epsilon=1e30)
    clients = population(replace(SECURE, secure=False, privacy=privacy))
    expected = np.zeros(len(clients.start))
    for i in range(4):
        update = (
            clients.client(i).train_round(clients.plan, 1, {"psi": clients.start})[0]["psi"] - clients.start
        )
        assert np.linalg.norm(update) > 0.05
        expected += update * (0.05 / np.linalg.norm(update)) / 4
    assert np.abs(make_server(clients).run().psi - clients.start - expected).max() < 1e-6


@pytest.mark.slow
def test_it_stops_at_the_budget_and_resumes_the_account(tmp_path):
    privacy = Privacy(clip=0.01, noise=5.0, delta=1e-3, epsilon=1.5)
    clients = population(replace(SECURE, secure=False, rounds=50, privacy=privacy))
    log: list[str] = []
    state = make_server(clients, tmp_path, log=log.append).run()
    assert 1 <= state.done < 50
    spent = [record["epsilon"] for record in state.rounds]
    assert spent == sorted(spent)
    assert spent[-1] <= 1.5
    assert any("exceed the budget" in text and "δ = 0.001" in text for text in log)
    again = make_server(clients, tmp_path, log=log.append).run()  # resumed, it does not start again
    assert again.done == state.done
    assert json.loads(again.accountant)["rounds"] == state.done


def test_the_budget_is_announced_before_the_first_round():
    privacy = Privacy(clip=0.01, noise=5.0, delta=1e-3, epsilon=Accountant(4, 4, 5.0, 1e-3, 1).after(2))
    plan = replace(SECURE, secure=False, rounds=3, privacy=privacy, clients_per_round=0)
    log: list[str] = []
    state = make_server(population(plan), log=log.append).run()
    assert state.done == 2
    assert log[1] == "3 rounds, each with about 4 of 4 clients, drawn at random."
    assert " at δ = 0.001 allows 2 of the 3 rounds; for more rounds use more noise" in log[2]


def test_a_budget_for_no_round_is_refused_before_anything_is_evaluated(monkeypatch):
    plan = replace(SECURE, secure=False, privacy=Privacy(noise=0.5, epsilon=1.0), clients_per_round=0)
    server = make_server(population(plan))
    monkeypatch.setattr(server, "evaluate", None)
    with pytest.raises(UsageError, match="allows no round"):
        server.run()


class KilledError(BaseException):
    """Stands for the end of the process: nothing of the server catches it."""


def _killing(call, before, countdown):
    """Let ``call`` end the process before or after its effect, when it is called for the n-th time."""

    def killed(*args, **options):
        countdown[0] -= 1
        if before and countdown[0] == 0:
            raise KilledError
        result = call(*args, **options)
        if countdown[0] == 0:
            raise KilledError
        return result

    return killed


STEPS = ("aggregate", "checkpoint", "evaluate", "publish", "rounds.jsonl", "on_round")


@pytest.mark.slow(seconds=8)
@pytest.mark.parametrize("step", STEPS)
def test_no_round_is_released_that_is_not_accounted_for_wherever_the_server_is_killed(
    step, tmp_path, monkeypatch
):
    """Each kill is followed by a resumption; a release is a ψ that clients are sent or a record that is published."""
    privacy = Privacy(clip=0.01, noise=5.0, delta=1e-3, epsilon=1e6)
    plan = replace(SECURE, secure=False, rounds=3, privacy=privacy, clients_per_round=0, evaluate_every=1)
    clients = population(plan)
    released: set[bytes] = set()
    for kill in range(2 * 4 + 1):
        server = make_server(clients, tmp_path)

        def release(psi):
            released.add(psi.tobytes())
            return {"accuracy": 0.5}

        server.evaluate_fn = release
        # New noise each time, as in a deployment: a round that is repeated is another release.
        monkeypatch.setattr(
            "filmtransfer.federated.server.noisy_mean",
            lambda total, deviation, n, _: noisy_mean(total, deviation, n, None),
        )
        owner, name = {
            "aggregate": (server, "run_round"),
            "checkpoint": (server, "_save"),
            "evaluate": (server, "evaluate_fn"),
            "publish": (server, "_publish"),
            "rounds.jsonl": (Checkpoint, "write_rounds"),
            "on_round": (server, "on_round"),
        }[step]
        with monkeypatch.context() as patched:
            if kill < 8:
                countdown = [kill // 2 + 1]
                patched.setattr(owner, name, _killing(getattr(owner, name), kill % 2 == 0, countdown))
            try:
                server.run()
            except KilledError:
                pass
        stored = Checkpoint.load(tmp_path, plan)
        spent = json.loads(stored.accountant)["rounds"] if stored and stored.accountant else 0
        assert len(released - {clients.start.tobytes()}) <= spent, f"after {kill} kills"
    assert stored is not None
    assert stored.done == spent == 3
    assert all(record["accuracy"] == 0.5 and "unfinished" not in record for record in stored.rounds)
    lines = [json.loads(line) for line in (tmp_path / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [0, 1, 2, 3]


def test_the_sampling_rate_is_never_above_the_accountants():
    privacy = Privacy(clip=0.01, noise=5.0, delta=1e-3, epsilon=1e6)
    server = make_server(population(replace(SECURE, secure=False, clients_per_round=2, privacy=privacy)))
    server.run()
    assert server.accountant.rate == server._sampling_rate == 0.5
    del server.clients.clients[1]  # however the roster shrinks
    assert server._sampling_rate == 0.5
    for node in range(5, 9):  # four clients join: two per round are expected still
        server.clients.clients[node] = replace(server.clients.clients[2], name=f"new-{node}")
    assert server._sampling_rate == pytest.approx(2 / 7)


def test_a_client_that_does_not_clip_changes_a_secure_sum_by_no_more_than_all_together_may():
    privacy = Privacy(clip=0.01, noise=1e-6, delta=1e-3, epsilon=1e15)
    plan = replace(SECURE, privacy=privacy)
    clients = population(plan)

    def client(i: int) -> Client:
        instance = clients.client(i)
        compute = instance.compute
        if i == 1:
            instance.compute = lambda work: {
                k: np.full_like(a, 1e9) if k == "psi" else a for k, a in compute(work).items()
            }
        return instance

    server = make_server(clients, client=client)
    psi = server.run().psi
    assert np.linalg.norm(psi - server.start) <= privacy.clip + 1e-4
