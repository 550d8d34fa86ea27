"""Mutated messages and files raise only the errors that their callers handle."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filmtransfer.errors import FitError
from filmtransfer.federated import masking, messages, scores, statistics
from filmtransfer.federated.checkpoint import CHECKPOINT_FILE, Checkpoint
from filmtransfer.federated.compression import compress, decompress
from filmtransfer.federated.policy import LEDGER_FILE, Ledger, Policy, releases_of
from filmtransfer.federated.records import read_json_lines
from filmtransfer.federated.secure_aggregation import _read_keys, _read_secrets
from tests.federated.tiny import ALL

SIZES = [3, 4]
ODD_VALUES = (
    0, -1, 2**63 - 1, -(2**63), float("nan"), float("inf"), -1e308, "", "\x00\n\u202e", "[" * 2000, "9" * 5000, "1e999", b"",
    b"\xff" * 40, [], [1], [float("nan")], ["", "a\n"], [2**63 - 1], '{"a": [1e999]}', '{"a": -1}', "[]", True,
)  # fmt: skip
NAN, INF = float("nan"), float("inf")
ODD_NUMBERS = (0, [], [1], [[1, 2]], [NAN] * 7, [INF] * 7, [-1] * 7, [6e4] * 7, [[1.0] * 7] * 2)
ODD_ARRAYS = (
    *(np.asarray(values, dtype) for values in ODD_NUMBERS for dtype in ("float16", "float32", "float64", "complex64", "U3")),
    np.full(7, 1e300), np.full(7, 2**63, np.uint64), np.full(7, -128, np.int8), np.ones(7, bool), np.ones((7, 1, 1)),
)  # fmt: skip


def valid() -> RecordDict:
    """A message that has the parts of all our messages."""
    keys = masking.generate_keys(masking.SessionConfig("s", 2, 24, {"psi": (7,)}))[1]
    content = messages.make_request(
        ALL, 1, compress(np.arange(7.0), "int8", SIZES), classes=["a", "b"], images=["own"]
    )
    content["metrics"] = MetricRecord({"num-examples": 9, "loss": 0.5, "accuracy": 0.5})
    content["about"] = ConfigRecord(
        {"name": "anna", "classes": ["a", "b"], "counts": [1, 2], "refused": "no"}
    )
    content["total"] = messages.make_array_record(
        {"counts": np.ones(2), "sums": np.ones((2, 3)), "moments": np.ones(6)}
    )
    content["scores"] = messages.make_array_record({k: np.ones(s) for k, s in scores.SCORE_SHAPES.items()})
    content["masked"] = ArrayRecord({"masked": Array(np.ones(7, np.uint64))})
    content["secure"] = ConfigRecord(
        {
            **keys["secure"],
            "session": "s",
            "threshold": 2,
            "bits": 24,
            "shapes": '{"psi": [7]}',
            "commitment": b"c" * 32,
        }
    )
    for name in ("keys", "shares"):
        content[name] = ConfigRecord({str(node): b"k" * 64 for node in range(3)})
    content["fates"] = ConfigRecord({str(node): "survived" for node in range(3)})
    content["work.config"] = content["config"]
    return content


def mutate(content: RecordDict, generator: random.Random) -> RecordDict:
    """Remove, add or replace some parts."""
    for _ in range(generator.randint(1, 3)):
        if not content:
            break
        name = generator.choice(list(content))
        record = content[name]
        key = generator.choice([*record, "other", "7", "9" * 5000])
        try:
            if generator.random() < 0.15:
                del content[name]
            elif generator.random() < 0.15:
                del record[key]
            elif isinstance(record, ArrayRecord):
                array = (
                    Array(generator.choice(ODD_ARRAYS))
                    if generator.random() < 0.5
                    else next(iter(record.values()))
                )
                data = bytearray(array.data)
                for _ in range(generator.choice((0, 1, 5))):
                    data[generator.randrange(len(data))] = generator.randrange(256)
                record[key] = Array(
                    array.dtype,
                    array.shape,
                    array.stype,
                    bytes(data[: generator.choice((None, 70, len(data) - 1))]),
                )
            else:
                value = generator.choice(ODD_VALUES)
                if isinstance(value, str) and generator.random() < 0.5 and isinstance(record.get(key), str):
                    text = record[key]
                    at = generator.randrange(len(text) + 1)
                    value = text[:at] + generator.choice(("", '"', "9", "[", value)) + text[at + 1 :]
                record[key] = value
        except (
            TypeError,
            ValueError,
            KeyError,
            StopIteration,
        ):  # Flower does not have such a value, or no such key
            continue
    return content


def _stage(stage: str, content: RecordDict) -> object:
    """Handle a request of secure aggregation in a session that has begun; refusals are replies."""
    session, _ = masking.generate_keys(masking.SessionConfig("s", 2, 24, {"psi": (7,)}))
    before = masking.STAGES[max(masking.STAGES.index(stage) - 1, 0)]
    record = {**session.to_record(), "stage": before}
    state = RecordDict({} if stage == "keys" else {masking.STATE + "s": ConfigRecord(record)})
    return masking.handle_message(stage, content, state, lambda _: {"psi": np.ones(7)}, 1)


SHAPES = (2, 3, "task")
READERS: dict[str, tuple[Callable[[RecordDict], object], tuple[type[Exception], ...]]] = {
    "content": (messages.check_content, (FitError,)),
    "plan": (messages.read_plan, (FitError,)),
    "round": (lambda c: messages.read_round(c, ALL), (FitError,)),
    "classes": (lambda c: messages.read_strings(messages.read_about(c), "classes"), (FitError,)),
    "name": (lambda c: messages.read_text(messages.read_about(c), "name"), (FitError,)),
    "numbers": (lambda c: messages.read_numbers(messages.read_about(c), "counts"), (FitError,)),
    "examples": (messages.read_examples, (FitError,)),
    "loss": (lambda c: messages.read_finite_metric(c, "loss"), ()),
    "refusal": (messages.read_refusal, ()),
    "update": (lambda c: decompress(messages.read_arrays(c), "int8", SIZES), (FitError,)),
    "statistics": (lambda c: statistics.from_arrays(messages.read_arrays(c, "total"), *SHAPES), (FitError,)),
    "scores": (lambda c: scores.check_scores(messages.read_arrays(c, "scores")), (FitError,)),
    "releases": (lambda c: releases_of("query.secure_masked", c), (FitError,)),
    **{stage: (lambda c, stage=stage: _stage(stage, c), ()) for stage in masking.STAGES},
    # What SecureAggregation's server catches of the replies.
    "server keys": (lambda c: _read_keys(1, c), (KeyError, TypeError, ValueError, FitError)),
    "server shares": (lambda c: _read_secrets(c, {0, 1, 2}), (KeyError, TypeError, ValueError, FitError)),
    "server masked": (
        lambda c: masking.read_masked(c.array_records["masked"]["masked"], {"psi": (7,)}),
        (KeyError, TypeError, ValueError, FitError),
    ),
}  # fmt: skip


def read_all(seed: int) -> None:
    """Give a mutated message to every reader."""
    content = mutate(valid(), random.Random(seed))
    for read, allowed in READERS.values():
        try:
            read(content)
        except allowed:
            pass


@pytest.mark.slow(seconds=6)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_the_readers_of_messages_raise_only_their_own_errors(seed):
    read_all(seed)


def mutated_bytes(content: bytes, generator: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(generator.randint(1, 8)):
        at = generator.randrange(len(data))
        data[at : at + generator.choice((1, 1, 4))] = generator.randbytes(generator.choice((0, 1, 1, 4)))
    return bytes(data)


def read_files(seed: int, folder: Path) -> None:
    """Give mutated files to every reader of files."""
    generator = random.Random(seed)
    Checkpoint(np.zeros(7, np.float32), ["a", "b"], [{"round": 1, "clients": ["anna"]}]).save(folder, ALL)
    ledger = Ledger("0" * 64, {"train": 2, "scores": 1}, {"0.5": 1, "0": 1})
    ledger.save(folder)
    policy = b'epsilon = 8.0\ndelta = 1e-5\nmin_clients = 3\nreleases = ["train", "scores"]\n'
    (folder / "lines").write_bytes(b'{"message": "a"}\n{"round": {"round": 1}}\n')
    for name in (CHECKPOINT_FILE, LEDGER_FILE, "lines"):
        path = folder / name
        path.write_bytes(mutated_bytes(path.read_bytes(), generator))
    for read in (
        lambda: Checkpoint.load(folder, ALL),
        lambda: Ledger.load(folder).epsilon(1e-5),
        lambda: Policy.parse(mutated_bytes(policy, generator), "policy.toml"),
    ):
        try:
            read()
        except FitError:
            pass
    assert all(isinstance(line, dict) for line in read_json_lines(folder / "lines"))


@pytest.mark.slow(seconds=6)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_the_readers_of_files_raise_only_their_own_errors(seed):
    with tempfile.TemporaryDirectory() as folder:
        read_files(seed, Path(folder))
