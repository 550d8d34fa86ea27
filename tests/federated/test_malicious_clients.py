"""A registered client may send anything: the others still get their classifier."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filmtransfer.errors import FitError
from filmtransfer.federated import messages
from filmtransfer.federated.client import Client
from filmtransfer.federated.completion import complete
from filmtransfer.federated.plan import Plan
from filmtransfer.federated.scores import SCORE_SHAPES
from filmtransfer.model import Update
from filmtransfer.training.assess.calibration import CURVE
from tests.federated.test_fuzzing import mutate
from tests.federated.tiny import ALL, make_server, population

LDA = replace(ALL, head="lda")
OTHERS = ["client-0", "client-2", "client-3"]
Change = Callable[[str, RecordDict], RecordDict]


def completed(plan: Plan, change: Change, *, train: bool = False) -> tuple[Update, list[str]]:
    """Run a federation whose client 1 changes its replies; return its classifier, read from a file, and the log."""
    clients = population(plan)

    def client(i: int) -> Client:
        instance = clients.client(i)
        handle = instance.handle
        if i == 1:
            instance.handle = lambda kind, *rest: change(kind, handle(kind, *rest))
        if not train:
            instance.train = lambda *_: {"num-examples": 9, "steps": 1}
        return instance

    log: list[str] = []
    server = make_server(clients, client=client, log=log.append)
    server.evaluate_fn = None
    update = complete(server, server.run())
    return Update.from_bytes(update.to_bytes()), log


def arrays_of(message_type: str, **values: Callable[[np.ndarray], object]) -> Change:
    """Return what changes arrays in the replies to one type of request."""

    def change(kind: str, reply: RecordDict) -> RecordDict:
        if kind != message_type:
            return reply
        arrays = messages.read_arrays(reply)
        for name, edit in values.items():
            if name in arrays:
                edit(arrays[name])
        return messages.make_reply("client-1", arrays)

    return change


def fill(value: float) -> Callable[[np.ndarray], object]:
    return lambda array: array.fill(value)


def put(index: int, value: float) -> Callable[[np.ndarray], object]:
    return lambda array: array.put(index, value)


FALSE_STATISTICS = {
    "large sums": (ALL, {"sums": fill(1e15)}, "too large for so many images"),
    "sums of other classes": (ALL, {"sums": lambda a: a.__setitem__(a == 0, 1.0)}, "too large for so many images"),
    "large counts": (ALL, {"counts": fill(1e15)}, "not those that it described"),
    "counts that outweigh all": (ALL, {"counts": fill(1e12), "sums": fill(0)}, "not those that it described"),
    "one image more": (ALL, {"counts": lambda a: a.__iadd__(a > 0)}, "not those that it described"),
    "infinite counts": (ALL, {"counts": fill(np.inf)}, "are not finite"),
    "negative moments": (LDA, {"moments": fill(-1e9)}, "second moments are not those of images"),
    "no moments": (LDA, {"moments": fill(0)}, "second moments are not those of images"),
    "large moments": (LDA, {"moments": fill(1e15)}, "too large for so many images"),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE_STATISTICS)
def test_false_statistics_are_refused_by_name_and_the_others_complete(name):
    plan, values, reason = FALSE_STATISTICS[name]
    update, log = completed(plan, arrays_of(messages.STATISTICS, **values))
    (refused,) = [line for line in log if line.startswith("The statistics of client-1 are refused")]
    assert reason in refused
    assert update.results["estimate"]["images"] == 27


FALSE_SCORES = {
    "count": {"moments": put(0, 1e308), "correct": put(0, 1e308)},
    "count above the images": {"moments": put(0, 10), "correct": put(0, 10)},
    "product": {"moments": put(3, -1e300)},
    "all moments": {"moments": lambda a: a[1:].fill(1e308)},
    "no spread": {"moments": put(1, 9.5)},
    "product of the parts": {"moments": lambda a: a.put(4, 2 * np.sqrt(a[3] * a[5]))},
    "losses": {"losses": fill(1.7e308)},
}


@pytest.mark.parametrize("name", FALSE_SCORES)
def test_false_scores_are_refused_by_name_and_the_others_calibrate(name):
    update, log = completed(ALL, arrays_of(messages.SCORES, **FALSE_SCORES[name]))
    assert sum(line.startswith("The scores of client-1 are refused") for line in log) == 1
    assert update.results["estimate"]["images"] == 27
    assert update.ood is not None


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("index", range(6))
def test_sums_that_give_no_calibration_cost_no_classifier(index, secure, monkeypatch):
    """Also where the sums passed every check, and with secure aggregation, where nobody sees those of one client."""
    monkeypatch.setattr("filmtransfer.federated.completion.check_scores", lambda *_: None)

    def scores(_: object) -> dict[str, np.ndarray]:
        sums = {name: np.ones(shape) for name, shape in SCORE_SHAPES.items()}
        sums["moments"][index] = -1e9 if secure else -1e300
        return sums | {"losses": np.full(CURVE, -1e9)}

    monkeypatch.setattr("filmtransfer.federated.client.HeldOutScores.sums", scores)
    update, _ = completed(replace(ALL, secure=secure), lambda _, reply: reply)
    assert len(update.classes) > 3
    assert np.isfinite(update.temperature)


@pytest.mark.parametrize("scale", [0.0, -1e5])
def test_second_moments_that_give_no_head_are_an_error_with_a_hint(scale, monkeypatch):
    """With secure aggregation nobody can name the client."""
    sums = Client.sums

    def false(self, *arguments) -> dict[str, np.ndarray]:
        return {k: a * scale if k == "moments" else a for k, a in sums(self, *arguments).items()}

    monkeypatch.setattr(Client, "sums", false)
    with pytest.raises(FitError, match="give no head") as raised:
        completed(replace(LDA, secure=True), lambda _, reply: reply)
    assert raised.value.hint


@pytest.mark.slow(seconds=6)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_mutated_replies_end_no_federation(seed):
    run_mutated(seed)


def run_mutated(seed: int) -> None:
    """Run a federation one of whose clients mutates some of its replies, of any type."""
    generator = random.Random(seed)
    plan = generator.choice((ALL, ALL, LDA, replace(ALL, evaluate_every=1), replace(ALL, secure=True)))

    def change(_: str, reply: RecordDict) -> RecordDict:
        if generator.random() < 0.5:
            return reply
        return mutate(reply, generator) if generator.random() < 0.5 else with_odd_values(reply, generator)

    try:
        update, _ = completed(plan, change)
    except FitError:
        if not plan.secure:  # there one client can spoil a sum, which nobody can attribute
            raise
    else:
        others = population(plan)
        assert {name for i in (0, 2, 3) for name in others.client(i).examples.classes} <= set(update.classes)


def with_odd_values(reply: RecordDict, generator: random.Random) -> RecordDict:
    """Replace values of the arrays; their types and shapes stay."""
    arrays = messages.read_arrays(reply)
    for array in arrays.values():
        if array.dtype.kind == "f" and array.size:
            index = generator.choice((slice(None), generator.randrange(array.size)))
            with np.errstate(all="ignore"):
                array.reshape(-1)[index] *= generator.choice((-1.0, 0.0, 1.5, 2.0, 1e9, 1e300, np.nan))
    return RecordDict({**reply, "arrays": messages.make_array_record(arrays)}) if arrays else reply
