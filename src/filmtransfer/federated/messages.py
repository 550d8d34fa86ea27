"""The messages between server and clients as Flower records, and their communication cost.

A request carries the plan, the round and, where it is needed, ψ. A reply carries the client's name. The cost of a
message is measured on the message itself: the elements of its arrays, and the bytes of the objects that Flower sends.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.common.constant import SType
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from ..budgets import (
    MAX_ARRAYS,
    MAX_EXAMPLES,
    MAX_NAME_LENGTH,
    MAX_NAMES,
    MAX_PLAN_IMAGE_SIZE,
    MAX_PLAN_LENGTH,
    MAX_REASON,
    MAX_RECORDS,
)
from ..errors import FitError, InputError
from .plan import Plan

logging.getLogger("flwr").setLevel(logging.WARNING)  # it logs every aggregation

DESCRIBE = "query.describe"
TRAIN = "train.round"
STATISTICS = "query.statistics"
SCORES = "query.scores"
EVALUATE = "evaluate.local"
FINISH = "query.finish"
TYPES = (DESCRIBE, TRAIN, STATISTICS, SCORES, EVALUATE, FINISH)
TOTAL = "total"  # the record of a request with the summed statistics of all clients
SumKind = Literal["statistics", "scores"]  # of the sums over a client's images
SUM_REQUESTS: dict[str, SumKind] = {STATISTICS: "statistics", EVALUATE: "statistics", SCORES: "scores"}
SECURE = "query.secure_"  # followed by the stage

# What numpy writes before the values of an array in C order, with at most two axes: version, length, type and shape.
HEADER = re.compile(
    rb"\x93NUMPY\x01\x00(..)\{'descr': '([<|][fiu][1248])', 'fortran_order': False, "
    rb"'shape': \((\d{0,10},?|\d{1,10}, \d{1,10})\), \} *\n",
    re.DOTALL,
)
ARRAY_TYPES = ("f2", "f4", "f8", "i1", "u8")

# Sent instead of a reason that may depend on a client's images.
UNSPECIFIED = "it cannot do this; the log of the client says why"

ConfigValue = str | int | float | list[str] | list[int] | list[float]


def message_cost(message: Message) -> tuple[int, int]:
    """Return the parameters and the bytes of a message."""
    if not message.has_content():
        return 0, 0
    arrays = [array for record in message.content.array_records.values() for array in record.values()]
    sent = sum(len(part.deflate()) for part in get_all_nested_objects(message).values())
    return sum(int(np.prod(array.shape)) for array in arrays), sent


def make_request(
    plan: Plan, server_round: int = 0, arrays: Mapping[str, np.ndarray] | None = None, **more: ConfigValue
) -> RecordDict:
    """Return the content of a request to a client."""
    content = RecordDict({"config": ConfigRecord({"plan": plan.to_json(), "round": server_round, **more})})
    if arrays is not None:
        content["arrays"] = make_array_record(arrays)
    return content


def with_settings(content: RecordDict, **more: ConfigValue) -> RecordDict:
    """Return the content of a request with more settings, such as those for one client; it shares the arrays."""
    return RecordDict({**content, "config": ConfigRecord({**read_config(content), **more})})


def make_reply(
    name: str,
    arrays: Mapping[str, np.ndarray] | None = None,
    metrics: Mapping[str, float] | None = None,
    about: Mapping[str, ConfigValue] | None = None,
) -> RecordDict:
    """Return the content of a client's reply."""
    content = RecordDict({"about": ConfigRecord({"name": name, **(about or {})})})
    if arrays is not None:
        content["arrays"] = make_array_record(arrays)
    if metrics is not None:
        content["metrics"] = MetricRecord(dict(metrics))
    return content


def make_array_record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    """Return arrays as a Flower record."""
    return ArrayRecord({name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()})


def check_content(content: RecordDict) -> None:
    """Raise an error for a message with more or larger parts than any of ours; nothing in it is expanded before."""
    arrays = [item for record in content.array_records.values() for item in record.items()]
    settings: list[ConfigRecord | MetricRecord] = [*content.config_records.values()]
    settings += content.metric_records.values()
    keys = [*content, *(name for name, _ in arrays), *(name for record in settings for name in record)]
    if len(content) > MAX_RECORDS or len(arrays) > MAX_ARRAYS:
        raise InputError(
            f"its message has {len(content)} records with {len(arrays)} arrays; at most {MAX_RECORDS} with {MAX_ARRAYS} are read."
        )
    if len(keys) > MAX_NAMES or any(len(key) > MAX_NAME_LENGTH for key in keys):
        raise InputError("its message has too many or too long names of records, arrays and settings.")
    for _, array in arrays:
        read_header(array)


def read_header(array: Array) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Return type, shape and offset of an array's values; raise an error unless its bytes are exactly these values.

    numpy's own reader would also open compressed archives, and reserve the memory that a header asks for.
    """
    header = HEADER.match(array.data) if array.stype == SType.NUMPY else None
    if header is None or header.end() != 10 + int.from_bytes(header[1], "little"):
        raise InputError("an array of its message is not one of plain numbers.")
    kind = header[2][1:].decode()  # after the order of the bytes, which is little-endian
    shape = tuple(int(size) for size in header[3].rstrip(b",").split(b", ") if size)
    if kind not in ARRAY_TYPES:
        raise InputError(f"an array of its message has values of the type {kind}.")
    dtype = np.dtype(f"<{kind}")
    if len(array.data) - header.end() != math.prod(shape) * dtype.itemsize or array.shape != shape:
        raise InputError("an array of its message does not have the size that it declares.")
    return dtype, shape, header.end()


def read_array(array: Array) -> np.ndarray:
    """Return an array of a message."""
    dtype, shape, offset = read_header(array)
    return np.frombuffer(array.data[offset:], dtype).reshape(shape).copy()


def read_arrays(content: RecordDict, record: str = "arrays") -> dict[str, np.ndarray]:
    """Return the arrays of a message, none if it has none; raise an error if they cannot be read."""
    return {name: read_array(array) for name, array in content.array_records.get(record, {}).items()}


def read_metric(content: RecordDict, name: str) -> float:
    """Return a metric of a reply; raise an error if it is missing or not a number."""
    value = dict(content.metric_records.get("metrics") or {}).get(name)
    if not isinstance(value, (int, float)):
        raise InputError(f"The reply has no {name}.")
    return float(value)


def read_examples(content: RecordDict) -> int:
    """Return on how many images a client has trained, its weight in the mean."""
    examples = read_metric(content, "num-examples")
    if not 1 <= examples <= MAX_EXAMPLES:
        raise InputError(f"it cannot have trained on {examples:g} examples.")
    return int(examples)


def read_finite_metric(content: RecordDict, name: str) -> float | None:
    """Return a metric of a reply; None if it is missing or not finite."""
    try:
        value = read_metric(content, name)
    except InputError:
        return None
    return value if math.isfinite(value) else None


def read_refusal(content: RecordDict) -> str:
    """Return why the client refused the request; empty if it did not."""
    return reason_of(read_about(content))


def reason_of(about: ConfigRecord) -> str:
    """Return the reason of a refusal as one line of bounded length; empty if this is none."""
    return one_line(about["refused"]) if "refused" in about else ""


def one_line(value: object) -> str:
    """Return a client's text as one line of bounded length, for logs and people."""
    text = "".join(c if c.isprintable() else " " for c in str(value)[:MAX_REASON])
    return text.strip() or "it gave no reason."


def as_bytes(value: object) -> bytes:
    """Return the value if it is bytes, and raise a TypeError otherwise."""
    if not isinstance(value, bytes):
        raise TypeError("bytes were expected")
    return value


def peer_bytes(content: RecordDict, name: str) -> dict[int, bytes]:
    """Return the bytes of a record by client."""
    record = content.config_records[name]
    return dict(zip(client_numbers(record), map(as_bytes, record.values()), strict=True))


def client_numbers(record: Mapping[str, object]) -> list[int]:
    """Return the clients that a record has an entry for; each has one spelling, so that none is counted twice."""
    if any(str(int(key)) != key for key in record):
        raise ValueError("the number of a client is not in decimal form")
    return [int(key) for key in record]


def read_config(content: RecordDict) -> ConfigRecord:
    """Return the settings of a request."""
    return content.config_records.get("config", ConfigRecord())


def read_about(content: RecordDict) -> ConfigRecord:
    """Return what a reply says about the client."""
    return content.config_records.get("about", ConfigRecord())


def requested_sums(content: RecordDict, message_type: str = "") -> SumKind:
    """Return which sums a request asks for: scores are those under the total that it brings, and need one."""
    kind: SumKind = "scores" if TOTAL in content else "statistics"
    if kind == "scores" and not content.array_records.get(TOTAL):
        raise InputError("The summed statistics of the request are no arrays.")
    if SUM_REQUESTS.get(message_type, kind) != kind:
        raise InputError(f"The request {message_type} cannot ask for {kind}.")
    return kind


def read_plan(content: RecordDict) -> Plan:
    """Return the plan of a request, validated: a client need not trust its server."""
    text = read_config(content).get("plan")
    if not isinstance(text, str) or len(text) > MAX_PLAN_LENGTH:
        raise InputError("The request has no plan.", "Use the same version as the server.")
    return _parse_plan(text)


def is_secure(content: RecordDict) -> bool:
    """Return whether a request has a plan with secure aggregation."""
    try:
        return read_plan(content).secure
    except FitError:
        return False


@lru_cache(maxsize=4)
def _parse_plan(text: str) -> Plan:
    try:
        plan = Plan.from_json(text)
        plan.validate()
        size = plan.training.validate().image_size
    except FitError as error:  # it may repeat what the server wrote
        raise InputError(one_line(error)) from None
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
        raise InputError(
            f"The plan of the request cannot be read ({one_line(str(error)[:80])}).",
            "Use the same version as the server.",
        ) from None
    if size > MAX_PLAN_IMAGE_SIZE:
        raise InputError(f"The plan has images of {size} pixels; at most {MAX_PLAN_IMAGE_SIZE} are possible.")
    return plan


def read_round(content: RecordDict, plan: Plan, first: int = 1) -> int:
    """Return the round of a request, from ``first`` to the last one of the plan."""
    server_round = read_config(content).get("round")
    if type(server_round) is not int or not first <= server_round <= plan.rounds:
        raise InputError(f"The request does not have a round of {first} to {plan.rounds}.")
    return server_round


def read_text(record: ConfigRecord, name: str) -> str:
    """Return a name of a record: printable text of bounded length."""
    value = record.get(name)
    if not isinstance(value, str) or not is_name(value):
        raise InputError(f"Its {name} is not one line of 1 to {MAX_NAME_LENGTH} printable characters.")
    return value


def is_name(value: str) -> bool:
    """Return whether a text from outside may name a client or a class: it has no control or format characters."""
    return 0 < len(value) <= MAX_NAME_LENGTH and value.isprintable()


def read_strings(record: ConfigRecord, name: str) -> list[str]:
    """Return a list of names of a record, such as its classes."""
    values = record.get(name)
    if not isinstance(values, list):
        raise InputError(f"The message has no list of {name}.")
    if len(values) > MAX_NAMES:
        raise InputError(f"The message has {len(values)} {name}; at most {MAX_NAMES} are read.")
    texts = [value for value in values if isinstance(value, str) and is_name(value)]
    if len(texts) < len(values):
        raise InputError(f"One of its {name} is not one line of 1 to {MAX_NAME_LENGTH} printable characters.")
    return texts


def read_counts(about: ConfigRecord, least: int = 1) -> dict[str, int]:
    """Return how many images of each class a client has; raise an error if they are fewer than ``least``."""
    classes, counts = read_strings(about, "classes"), about.get("counts")
    numbers = [n for n in counts if type(n) is int and n >= least] if isinstance(counts, list) else []
    valid = isinstance(counts, list) and len(classes) == len(set(classes)) == len(counts) == len(numbers)
    if not valid or not 0 < sum(numbers) <= MAX_EXAMPLES:
        raise InputError(
            f"its classes do not have one number of images each, of at least {least} and together at most {MAX_EXAMPLES}."
        )
    return dict(zip(classes, numbers, strict=True))


def read_number_of_tests(about: ConfigRecord) -> int:
    """Return how many test images a client says it has."""
    tests = about.get("tests")
    if type(tests) is not int or not 0 <= tests <= MAX_EXAMPLES:
        raise InputError(f"its number of test images is not one of 0 to {MAX_EXAMPLES}.")
    return tests


def read_numbers(record: ConfigRecord, name: str) -> list[float]:
    """Return a list of finite numbers of a record."""
    values = record.get(name)
    if not isinstance(values, list) or not all(
        isinstance(value, int | float) and math.isfinite(value) for value in values
    ):
        raise InputError(f"The message has no list of numbers {name}.")
    return [float(value) for value in values]
