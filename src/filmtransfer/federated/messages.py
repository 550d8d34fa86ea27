"""What server and clients say to each other, as Flower's records; and what it weighs.

A request carries the plan, the round and, where it is needed, ψ. A reply carries the client's name. The cost of a
message is counted from the message itself: the numbers in its arrays, and the bytes of the objects that Flower sends.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects

from ..errors import InputError
from .plan import Plan

logging.getLogger("flwr").setLevel(logging.WARNING)  # it tells of every aggregation

DESCRIBE = "query.describe"
ROUND = "train.round"
STATISTICS = "query.statistics"
EVALUATE = "evaluate.local"
FINISH = "query.finish"
SECURE = "query.secure_"  # and the stage


@dataclass
class Cost:
    """Numbers and bytes, one way."""

    parameters: int = 0
    bytes: int = 0

    def add(self, message: Message) -> None:
        if not message.has_content():
            return
        for record in message.content.array_records.values():
            self.parameters += sum(int(np.prod(array.shape)) for array in record.values())
        self.bytes += sum(len(part.deflate()) for part in get_all_nested_objects(message).values())


def request(
    plan: Plan, server_round: int = 0, arrays: Mapping[str, np.ndarray] | None = None, **more: Any
) -> RecordDict:
    content = RecordDict({"config": ConfigRecord({"plan": plan.to_json(), "round": server_round, **more})})
    if arrays is not None:
        content["arrays"] = record(arrays)
    return content


def reply(
    name: str,
    arrays: Mapping[str, np.ndarray] | None = None,
    metrics: Mapping[str, float] | None = None,
    **about: Any,
) -> RecordDict:
    content = RecordDict({"about": ConfigRecord({"name": name, **about})})
    if arrays is not None:
        content["arrays"] = record(arrays)
    if metrics is not None:
        content["metrics"] = MetricRecord(dict(metrics))
    return content


def record(arrays: Mapping[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.ascontiguousarray(array)) for name, array in arrays.items()})


def arrays_of(content: RecordDict) -> dict[str, np.ndarray]:
    """The arrays of a message; none if it has none, an error if they cannot be read."""
    try:
        return {name: array.numpy() for name, array in content.array_records.get("arrays", {}).items()}
    except (ValueError, TypeError, EOFError) as error:
        raise InputError(f"The arrays that came cannot be read ({str(error)[:80]}).") from None


def number(content: RecordDict, name: str) -> float:
    """A metric; an error if it is not there, NaN if it is no number."""
    value = dict(content.metric_records.get("metrics") or {}).get(name)
    if not isinstance(value, (int, float)):
        raise InputError(f"The reply does not say {name}.")
    return float(value)


def refusal(content: RecordDict) -> str:
    """Why the client cannot do what it was asked, if it cannot."""
    return str(config_of(content, "about").get("refused", ""))


def config_of(content: RecordDict, name: str = "config") -> dict[str, Any]:
    return dict(content.config_records.get(name, {}))


def plan_of(content: RecordDict) -> Plan:
    return Plan.from_json(config_of(content)["plan"])
