"""The server's requests to clients: replies by name, and sums over clients, plain or by secure aggregation."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from flwr.app import ConfigRecord, RecordDict

from ..errors import FitError
from . import messages
from .client_manager import ClientManager
from .fixed_point import FRACTIONAL_BITS, Shapes
from .masking import MIN_CLIENTS
from .plan import Plan
from .records import Log, RoundRecord
from .secure_aggregation import SecureAggregationError, majority, secure_sum
from .transport import Transport


@dataclass(frozen=True)
class ClientSum:
    """The sum of the clients' arrays, and the names of those that are in it."""

    arrays: dict[str, np.ndarray]
    clients: list[str]


def no_failures() -> RoundRecord:
    """Return the part of a record that names clients which did not contribute, and why."""
    return {"missing": {}, "refused": {}}


def without_contributors(failures: RoundRecord, contributed: Collection[str]) -> RoundRecord:
    """Return the failures of clients that did not contribute in the end.

    A client that is missing in one attempt may contribute in the next one, and one that fails after it has sent its
    masked values is in their sum.
    """
    return {
        "missing": {name: why for name, why in failures["missing"].items() if name not in contributed},
        "refused": {name: why for name, why in failures["refused"].items() if name not in contributed},
    }


@dataclass(frozen=True, eq=False)
class Communication:
    """Asks clients by name, and records and logs those that do not answer or refuse."""

    transport: Transport
    plan: Plan
    clients: ClientManager
    log: Log

    def request(
        self, message_type: str, requests: Mapping[int, RecordDict], purpose: str, failures: RoundRecord
    ) -> dict[str, RecordDict]:
        """Return the replies by client name; missing clients and refusals are recorded and logged."""
        replies, missing = self.transport.exchange(message_type, requests, purpose)
        usable: dict[str, RecordDict] = {}
        for node in sorted(requests):
            name = self.clients.clients[node].name
            if node in missing:
                failures["missing"][name] = missing[node]
                self.log(f"{name} is missing: {missing[node]}")
            elif reason := messages.read_refusal(replies[node]):
                failures["refused"][name] = reason
                self.log(f"{name} refused: {reason}")
            else:
                usable[name] = replies[node]
        return usable

    def sum_securely(
        self,
        work: Mapping[int, RecordDict],
        shapes: Shapes,
        purpose: str,
        failures: RoundRecord,
        bits: int = FRACTIONAL_BITS,
    ) -> ClientSum | None:
        """Return the sums over the nodes that stayed to the end, of what each has to do; None if too few did."""
        if len(work) < max(self.plan.min_clients, MIN_CLIENTS):
            return None
        nodes = {self.clients.clients[node].name: node for node in work}
        plan = ConfigRecord({"plan": self.plan.to_json()})

        def exchange(stage: str, requests: Mapping[int, RecordDict]) -> dict[int, RecordDict]:
            contents = {node: RecordDict({**content, "config": plan}) for node, content in requests.items()}
            replies = self.request(messages.SECURE + stage, contents, purpose, failures)
            return {nodes[name]: reply for name, reply in replies.items()}

        total: ClientSum | None = None
        contributed, dropped = 0, {}
        try:
            result = secure_sum(
                exchange,
                work,
                threshold=majority(len(work)),
                session=secrets.token_hex(8),
                shapes=shapes,
                bits=bits,
                name_of=lambda node: self.clients.clients[node].name,
            )
            names = sorted(self.clients.clients[node].name for node in result.contributed)
            total, contributed, dropped = ClientSum(dict(result.sums), names), len(names), result.dropped
        except SecureAggregationError as error:
            dropped = error.dropped
            self.log(str(error))
        for node, reason in dropped.items():
            name = self.clients.clients[node].name
            if name in failures["refused"]:
                continue  # reported with its own reason
            if failures["missing"].setdefault(name, reason) == reason:
                self.log(f"{name} is missing: {reason}")
        return total if contributed >= self.plan.min_clients else None

    def sum_over_clients(
        self,
        message_type: str,
        requests: Mapping[int, RecordDict],
        shapes: Shapes,
        check: Callable[[Mapping[str, np.ndarray], int | None], object],
        failures: RoundRecord,
        bits: int = FRACTIONAL_BITS,
    ) -> ClientSum | None:
        """Return the sum of the arrays that clients reply with; None if there is none.

        With secure aggregation nothing else is revealed, and values have so many fractional ``bits``. ``check`` raises
        an error for arrays that are not possible: those of a node, or the sum (None) where only that is known. Clients
        that are not in the sum are in ``failures``.
        """
        purpose = message_type.rpartition(".")[2]
        if self.plan.secure:
            total = self.sum_securely(requests, shapes, purpose, failures, bits)
            if total is not None:
                check(total.arrays, None)
            return total
        nodes = {self.clients.clients[node].name: node for node in requests}
        parts: dict[str, Mapping[str, np.ndarray]] = {}
        for name, reply in self.request(message_type, requests, purpose, failures).items():
            try:
                part = messages.read_arrays(reply)
                check(part, nodes[name])
            except FitError as error:
                failures["refused"][name] = str(error)
                self.log(f"The {purpose} of {name} are refused: {error}")
            else:
                parts[name] = part
        if not parts:
            return None
        names = sorted(parts)
        return ClientSum({key: np.sum([parts[name][key] for name in names], 0) for key in shapes}, names)
