"""What a client may not do to a round, and what it may not be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import Error, Message, RecordDict

from filmtransfer.errors import InputError, UsageError
from filmtransfer.federated import messages
from filmtransfer.federated.aggregation import aggregate, check_step, outvoted
from filmtransfer.federated.client import Client, Examples
from filmtransfer.federated.client_manager import FederationError
from filmtransfer.federated.plan import Plan
from tests.federated.tiny import PLAN, SCENE, population, server

ALL = replace(PLAN, rounds=1, clients_per_round=4)


class Odd(Client):
    """A client whose reply to a round goes through ``spoil`` first."""

    spoil = staticmethod(lambda arrays, metrics: (arrays, metrics))

    def round(self, plan, server_round, arrays):
        return self.spoil(*super().round(plan, server_round, arrays))


def with_one(spoil, index=2, plan=ALL):
    """Clients of whom one is odd."""
    found = population(plan)

    def client(i: int) -> Client:
        honest = found.client(i)
        if i == index:
            honest.__class__ = Odd
            honest.spoil = spoil
        return honest

    return found, client


def array(change):
    return lambda arrays, metrics: ({"psi": change(arrays["psi"])}, metrics)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (array(lambda psi: np.where(np.arange(len(psi)) < 7, np.nan, psi)), "7 of its numbers are not finite"),
        (array(lambda psi: np.full_like(psi, np.inf)), "not finite"),
        (array(lambda psi: psi[:-1]), "numbers came instead of"),
        (array(lambda psi: psi.reshape(1, -1)), "not a vector"),
        (array(lambda psi: psi + np.float32(1e6)), "moved a number by 1e"),
        (array(lambda psi: psi.astype(np.float64)), "not a vector of float32"),
        (array(lambda psi: psi.astype(str)), "not a vector of float32"),
        (lambda arrays, metrics: ({}, metrics), "not a vector"),
        (lambda arrays, metrics: (arrays, {}), "does not say num-examples"),
        (lambda arrays, metrics: (arrays, metrics | {"num-examples": 0}), "speaks for no examples"),
        (lambda arrays, metrics: (arrays, metrics | {"num-examples": -5}), "speaks for no examples"),
        (lambda arrays, metrics: (arrays, metrics | {"num-examples": float("nan")}), "speaks for no examples"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_and_its_sender_named(spoil, why):
    found, client = with_one(spoil)
    said: list[str] = []
    state = server(found, client=client, say=said.append).run()
    (line,) = state.rounds
    assert list(line["refused"]) == ["client-2"]
    assert why in line["refused"]["client-2"]
    assert any("client-2" in text and why in text for text in said)
    honest = server(found, client=lambda i: found.client(i)).run()
    three = {k: v for k, v in line.items() if k == "examples"}
    assert three["examples"] == honest.rounds[0]["examples"] - len(found.rows(2))
    assert np.isfinite(state.psi).all()


def test_a_client_that_fails_is_missing_and_the_round_goes_on():
    found = population(ALL)

    def client(i: int) -> Client:
        made = found.client(i)
        if i == 1:
            made.train = lambda *_: (_ for _ in ()).throw(InputError("its disk is full."))
        return made

    (line,) = server(found, client=client).run().rounds
    assert line["refused"] == {"client-1": "its disk is full."}


def test_too_few_answers_repeat_the_round_and_then_end_it(tmp_path):
    found = population(replace(ALL, min_clients=4, rounds=2))
    tries = []

    def client(i: int) -> Client:
        made = found.client(i)
        if i == 3:
            made.train = lambda *_: tries.append(1) or (_ for _ in ()).throw(InputError("not today."))
        return made

    with pytest.raises(
        FederationError, match=r"fewer than 4 usable answers 3 times.*client-3: not today"
    ) as caught:
        server(found, tmp_path, client=client).run()
    assert len(tries) == 3
    assert "start it again" in caught.value.hint
    state = server(found, tmp_path).run()  # the client is well again: nothing was lost
    assert state.done == 2


def test_one_class_or_one_image_a_class_is_said_and_left_out():
    found = population(ALL)

    def client(i: int) -> Client:
        made = found.client(i)
        own = made.examples
        if i == 0:
            rows = torch.nonzero(own.labels == 0).flatten()
            made.examples = Examples(own.embed.pick(rows), own.labels[rows], own.classes[:1])
        if i == 1:
            rows = torch.tensor([int(torch.nonzero(own.labels == c)[0]) for c in range(3)])
            made.examples = Examples(own.embed.pick(rows), own.labels[rows], own.classes)
        return made

    made = server(found, client=client)
    (line,) = made.run().rounds
    assert "one class only" in line["refused"]["client-0"]
    assert "one image of each class" in line["refused"]["client-1"]
    statistics, classes = made.statistics(found.start)  # their images count all the same
    assert int(statistics.counts.sum()) == 3 + 3 + 2 * 9
    assert len(classes) == 10  # client-0 has one where it had three


def test_fewer_clients_than_a_round_asks_for():
    said: list[str] = []
    plan = replace(PLAN, rounds=1, clients_per_round=9)
    (line,) = server(population(plan), say=said.append).run().rounds
    assert len(line["clients"]) == 4
    assert "Round 1: 4 clients are there, 9 were asked for." in said


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"digest": "f00d" * 16}, "its digest is f00df00d"),
        ({"pixels": '{"size": 99}'}, "its pixels is"),
        ({"layout": "0" * 64}, "its layout is"),
        ({"classes": ["Alarm Clock"]}, "Alarm Clock"),
    ],
)
def test_clients_that_cannot_work_with_the_others_are_refused(change, why):
    found = population(ALL)

    def client(i: int) -> Client:
        made = found.client(i)
        describe = made.describe
        if i == 2:
            made.describe = lambda: describe() | change
        elif "classes" in change and i == 0:
            made.describe = lambda: describe() | {"classes": ["alarm clock", "b"]}
        return made

    said: list[str] = []
    made = server(found, client=client, say=said.append)
    (line,) = made.run().rounds
    assert line["clients"] == ["client-0", "client-1", "client-3"]
    (refused,) = [text for text in said if "is refused" in text]
    assert refused.startswith("client-2 is refused")
    assert why in refused
    if "digest" in change:
        assert found.model.backbone.digest in refused, "both digests"


def test_a_name_can_be_had_once():
    found = population(ALL)

    def client(i: int) -> Client:
        made = found.client(i)
        made.name = "anna" if i < 2 else made.name
        return made

    said: list[str] = []
    made = server(found, client=client, say=said.append)
    made.run()
    assert len(made.roster) == 3
    assert any("another client of this name" in text for text in said)


def test_a_name_is_that_of_the_key():
    found = population(ALL)
    said: list[str] = []
    made = server(found, say=said.append)
    made.talk.registered = lambda: {1: "client-0", 2: "somebody else"}
    made.run()
    assert "client-1 is refused: its key is that of somebody else." in said[0]
    assert len(made.roster) == 3


def test_of_a_node_that_is_gone_its_name_is_told():
    """SuperLink answers for it, in its own name and with the number of the message."""
    found = population(ALL)
    made = server(found)
    honest = made.talk.grid.send_and_receive

    def send(messages_sent, *, timeout=None):
        sent = list(messages_sent)
        for i, message in enumerate(sent):
            message.metadata.__dict__["_message_id"] = f"m{i}"
        replies = honest(sent, timeout=timeout)
        if sent[0].metadata.message_type != messages.ROUND:
            return replies
        gone = Message(Error(code=5, reason="Node unavailable"), reply_to=sent[2])
        gone.metadata.__dict__["_src_node_id"] = 1
        return [*replies[:2], gone, *replies[3:]]

    made.talk.grid.send_and_receive = send
    (line,) = made.run().rounds
    assert line["missing"] == {"client-2": "Node unavailable"}


def test_an_unknown_message_is_answered_with_a_reason():
    client = population().client(0)
    with pytest.raises(InputError, match=r"does not know what to do with train\.other"):
        client.answer("train.other", messages.request(PLAN), RecordDict(), 1)


# Robust strategies

STEPS = {f"c{i}": np.full(6, 0.01 * i) for i in range(1, 6)}
EXAMPLES = dict.fromkeys(STEPS, 3)


@pytest.mark.parametrize("algorithm", ["trimmed_mean", "median", "krum", "multikrum"])
def test_a_liar_is_outvoted_and_named(algorithm):
    plan = replace(PLAN, algorithm=algorithm)
    steps = STEPS | {"c6": np.full(6, 50.0)}
    check_step(steps["c6"])  # it is no nonsense
    result = aggregate(plan, 1, steps, EXAMPLES | {"c6": 300})
    assert 0.01 <= result.min() <= result.max() <= 0.05
    assert outvoted(steps, result) == ["c6"]
    mean = aggregate(PLAN, 1, steps, EXAMPLES | {"c6": 300})
    assert mean.min() > 40, "the plain mean believes it"


def test_the_strategies_are_what_they_are_called():
    def step(algorithm: str, **more: object) -> float:
        return float(aggregate(replace(PLAN, algorithm=algorithm, **more), 1, STEPS, EXAMPLES)[0])

    assert step("median") == pytest.approx(0.03)
    assert step("trimmed_mean", trim=0.2) == pytest.approx(0.03)
    assert step("krum") in [pytest.approx(0.01 * i) for i in range(1, 6)]
    weighted = aggregate(PLAN, 1, STEPS, {"c1": 1, "c2": 2, "c3": 3, "c4": 4, "c5": 10})
    assert weighted[0] == pytest.approx(0.01 * (1 + 4 + 9 + 16 + 50) / 20)


def test_krum_sees_small_differences_beside_large_numbers():
    """In float32 the squares of ψ near 1 would hide them."""
    noise = np.random.default_rng(0)
    steps = {f"c{i}": 1e-5 * noise.standard_normal(20_000) for i in range(5)}
    steps["c5"] = 3e-5 * noise.standard_normal(20_000)
    result = aggregate(replace(PLAN, algorithm="krum"), 1, steps, dict.fromkeys(steps, 1))
    assert any(np.array_equal(result, steps[f"c{i}"]) for i in range(5))


def test_nobody_is_outvoted_where_all_agree():
    assert outvoted({"a": np.zeros(3), "b": np.zeros(3)}, np.zeros(3)) == []


@pytest.mark.parametrize(
    "change",
    [
        {"rounds": -1}, {"clients_per_round": 0}, {"algorithm": "fedsgd"}, {"compression": "zip"}, {"head": "qda"},
        {"mu": -1.0}, {"trim": 0.5}, {"decay": 0.0}, {"timeout": 0.0}, {"min_clients": 99}, {"train": "all"},
        {"secure": True, "algorithm": "krum"}, {"secure": True, "compression": "int8"}, {"nonsense": 1},
        {"privacy": {"epsilon": 1.0}, "algorithm": "median"}, {"privacy": {"nonsense": 1.0}}, {"steps": True},
    ],
)  # fmt: skip
def test_a_plan_says_what_is_wrong_with_it(change):
    with pytest.raises(UsageError):
        Plan().with_choices(**change)


def test_a_plan_travels():
    plan = Plan().with_choices(privacy={"epsilon": 3.0}, algorithm="fedprox", image_size=96)
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.privacy is not None
    assert plan.privacy.epsilon == 3.0
    assert SCENE.shots == 3
