"""Messages of a federation: replies that a server reads, requests that a client reads, plans, secure aggregation."""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from google.protobuf import json_format

from filmtransfer.errors import FitError
from filmtransfer.federated import messages
from filmtransfer.federated.aggregation import check_update
from filmtransfer.federated.compression import compress, decompress
from filmtransfer.federated.masking import RECORD, STAGES, handle_message
from filmtransfer.federated.plan import Plan
from filmtransfer.federated.scores import (
    HISTOGRAM_SHAPES,
    SCORE_SHAPES,
    SummedScores,
    check_histogram,
    check_scores,
)
from filmtransfer.federated.secure_aggregation import secure_sum
from filmtransfer.federated.statistics import array_shapes, from_arrays
from tests.fuzz.mutation import mutate_bytes, mutate_json

# The first byte of an input is an index: the stages whose reply and whose request it replaces, and then messages
# in the clear.
REPLIES, REQUESTS, PLAIN = len(STAGES), 2 * len(STAGES), 2 * len(STAGES) + 1
SESSION, NODES = "round 1", [2**64 - 5, 17, 4]
SHAPES: dict[str, tuple[int, ...]] = {"psi": (3, 2), "weight": (1,)}
SIZES, CLASSES, FEATURES = [4, 2], ["a", "b"], 3


def seeds() -> list[bytes]:
    seen: list[bytes] = []

    def keep(kind: int, content: RecordDict) -> RecordDict:
        seen.append(bytes([kind]) + _sent(content))
        return content

    _secure_sum(
        lambda stage, node, content: keep(STAGES.index(stage), content) if node == 17 else content, REPLIES
    )
    _secure_sum(
        lambda stage, node, content: keep(REPLIES + STAGES.index(stage), content) if node == 17 else content,
        REQUESTS,
    )
    psi = np.linspace(-1, 1, 6, dtype=np.float32)
    statistics = {name: np.ones(shape) for name, shape in array_shapes(2, FEATURES, "task").items()}
    metrics = {"num-examples": 6, "loss": 0.5, "accuracy": 0.5}
    about = {"classes": CLASSES, "counts": [3, 3]}
    plain = [
        *(
            messages.make_reply("anna", compress(psi, method, SIZES), metrics)
            for method in ("none", "float16", "int8")
        ),
        messages.make_reply("anna", statistics, about=about),
        messages.make_reply("anna", {name: np.ones(shape) for name, shape in SCORE_SHAPES.items()}),
        messages.make_reply("anna", {name: np.ones(shape) for name, shape in HISTOGRAM_SHAPES.items()}),
        messages.make_request(Plan(), 3, {"psi": psi}, classes=CLASSES, mean=[0.5, 0.5]),
    ]
    return [*seen, *(bytes([PLAIN]) + _sent(content) for content in plain)]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change a value of the message."""
    try:
        proto = ProtoRecordDict.FromString(data[1:])
        document = mutate_json(json_format.MessageToDict(proto), rng)
        changed = json_format.ParseDict(document, ProtoRecordDict())
    except Exception:
        return data[:1] + mutate_bytes(data[1:], [data], rng)
    return data[:1] + changed.SerializeToString()


def run(data: bytes) -> None:
    kind = data[0] % (PLAIN + 1) if data else 0
    try:
        content = recorddict_from_proto(ProtoRecordDict.FromString(data[1:]))
    except Exception:  # Flower refuses it
        return
    if kind >= REQUESTS:
        _read(content)
        return
    if RECORD in content.config_records:
        content[RECORD] = ConfigRecord({**content.config_records[RECORD], "session": SESSION})
    stage = STAGES[kind % len(STAGES)]

    def replace(asked: str, node: int, original: RecordDict) -> RecordDict:
        return content if (asked, node) == (stage, 17) else original

    with suppress(FitError):
        _secure_sum(replace, REPLIES if kind < REPLIES else REQUESTS)


def _read(content: RecordDict) -> None:
    """Read a message as a server and as a client do."""
    with suppress(FitError):
        messages.read_plan(content)
    with suppress(FitError):
        messages.read_round(content, messages.read_plan(content))
    for name in ("num-examples", "loss", "accuracy"):
        with suppress(FitError):
            messages.read_metric(content, name)
        messages.read_finite_metric(content, name)
    messages.read_refusal(content)
    for record in (messages.read_about(content), messages.read_config(content)):
        for name in ("classes", "counts", "mean"):
            with suppress(FitError):
                messages.read_strings(record, name)
            with suppress(FitError):
                messages.read_numbers(record, name)
    try:
        arrays = messages.read_arrays(content)
    except FitError:
        return
    for method in ("none", "float16", "int8"):
        with suppress(FitError):
            check_update(decompress(arrays, method, SIZES))
    for scatter in ("none", "task"):
        with suppress(FitError):
            from_arrays(arrays, len(CLASSES), FEATURES, scatter).means()
    with suppress(FitError):
        check_scores(arrays)
        SummedScores.read(arrays)
    with suppress(FitError):
        check_histogram(arrays)


def _secure_sum(change, direction: int) -> None:
    """Run a session of three clients whose replies or requests pass through ``change``."""
    states = {node: RecordDict() for node in NODES}

    def exchange(stage: str, requests: Mapping[int, RecordDict]) -> dict[int, RecordDict]:
        replies = {}
        for node, request in requests.items():
            received = change(stage, node, request) if direction == REQUESTS else request
            reply = handle_message(stage, received, states[node], lambda _: _values(), node)
            replies[node] = change(stage, node, reply) if direction == REPLIES else reply
        return replies

    secure_sum(
        exchange, {node: RecordDict() for node in NODES}, threshold=2, session=SESSION, shapes=SHAPES, bits=24
    )


def _values() -> dict[str, np.ndarray]:
    return {name: np.ones(shape) for name, shape in SHAPES.items()}


def _sent(content: RecordDict) -> bytes:
    return recorddict_to_proto(content).SerializeToString()
