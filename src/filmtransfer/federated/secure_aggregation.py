"""Secure aggregation, the server's part: a sum over clients of whom any may vanish at any time.

What it gives. A server that keeps to the protocol but looks at all it gets, together with up to threshold − 1 of
the clients, learns the sum over the others and nothing else of their numbers: each client's message is masked by
keystreams that it does not know. Late and lost answers do not change that.

What it does not give.

- *Authentic keys.* The server passes on the clients' public keys. A client is whom Flower says it is, and Flower
  is the server's: a server that lies may invent clients, and with threshold − 1 of them on its side it learns a
  sum over one. Against that the keys would have to be signed by an authority the server is not; they are not.
- *Much against a server that tells clients different things.* It cannot collect both secrets of a client: each
  other client opens one, once, and the threshold is above half (with m colluding it has to be above (n + m)/2).
  But the paper's further round for such a server, in which clients sign who is left, is not here.
- *Sound numbers.* Nobody sees a single client's numbers, so nobody can see that they are absurd, and a client
  that sends false shares can spoil a round (seen and said, but not whose they were).
- *Secrecy of sums.* A sum tells something, and the difference of two sums over almost the same clients with the
  same model tells what the one client more had. Differential privacy is for that (``privacy.py``).

Who takes part, when, and the shapes of what is summed are in the open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from flwr.app import ConfigRecord, RecordDict

from ..errors import FitError, UsageError
from . import shamir
from .fixed_point import BITS, Reals, Shapes, decode, size
from .masking import (
    DROPPED,
    KEY_BYTES,
    LEAST,
    RECORD,
    SURVIVED,
    WORK,
    SessionConfig,
    answer,
    as_bytes,
    commitment,
    keystream,
    numbers,
    pair_seed,
    public_keys,
)

__all__ = ["SecureAggregationError", "SecureSum", "answer", "majority", "secure_sum"]

Exchange = Callable[[str, Mapping[int, RecordDict]], Mapping[int, RecordDict]]
T = TypeVar("T")


class SecureAggregationError(FitError):
    """Too few clients stayed, or their answers do not belong together; no sum is known, and no one's numbers."""

    def __init__(self, message: str, hint: str, stage: str, dropped: Mapping[int, str]) -> None:
        super().__init__(message, hint)
        self.stage = stage
        self.dropped = dict(dropped)


@dataclass(frozen=True)
class SecureSum:
    sums: dict[str, Reals]
    contributed: list[int]  # whose numbers are in the sums
    dropped: dict[
        int, str
    ]  # who failed and how; one that failed only at "unmask" has contributed all the same


def majority(clients: int) -> int:
    """The lowest threshold that clients accept: it withstands most dropouts, and fewest who collude."""
    return max(LEAST, clients // 2 + 1)


def secure_sum(
    exchange: Exchange,
    nodes: Sequence[int],
    *,
    threshold: int,
    session: str,
    work: RecordDict,
    shapes: Shapes,
    bits: int = BITS,
) -> SecureSum:
    """The sums of what ``compute(work)`` gives on each client: vectors of these names and shapes.

    ``exchange(stage, requests)`` sends one message "query.secure_<stage>" a node and returns the contents of
    those that answered. ``session`` must be new each time, also when a round is repeated.
    """
    if len(set(nodes)) < len(nodes):
        raise UsageError("A client is named twice.")
    if not LEAST <= threshold <= len(nodes) or 2 * threshold <= len(nodes):
        raise UsageError(
            f"A threshold of {threshold} does not suit {len(nodes)} clients.",
            f"It is at least {LEAST}, above half of the clients, and at most all of them.",
        )
    asked = SessionConfig(session, threshold, bits, {name: tuple(shape) for name, shape in shapes.items()})
    talk = _Talk(exchange, asked, {})

    keys = talk.ask("keys", {node: RecordDict() for node in nodes}, _read_keys)
    binding = asked.binding(keys)

    listed = ConfigRecord({str(node): key for node, key in keys.items()})
    shared = talk.ask("shares", {node: RecordDict({"keys": listed}) for node in keys}, _shares_reader(keys))

    requests = {}
    for node in shared:
        letters = ConfigRecord({str(peer): shared[peer].letters[node] for peer in shared if peer != node})
        needed = {WORK + key: record for key, record in work.items()}
        requests[node] = RecordDict({"shares": letters, **needed})
    masked = talk.ask(
        "masked",
        requests,
        lambda _, content: numbers(content.array_records["masked"]["masked"], asked.shapes),
    )

    fates = ConfigRecord({str(node): SURVIVED if node in masked else DROPPED for node in shared})
    opened = talk.ask(
        "unmask", {node: RecordDict({"fates": fates}) for node in masked}, _opened_reader(shared)
    )

    total = np.zeros(size(asked.shapes), np.uint64)
    for words in masked.values():
        total += words
    place = {node: number for number, node in enumerate(sorted(keys), start=1)}
    for node in shared:
        some = {place[peer]: opened[peer][node] for peer in sorted(opened)[:threshold]}
        try:
            secret = shamir.combine(some)
        except ValueError:
            secret = b""
        if node in masked:
            talk.demand(commitment(secret, binding) == shared[node].commitment, node)
            total -= keystream(secret, len(total))
        else:
            talk.demand(len(secret) > 0 and _public(secret) == keys[node][KEY_BYTES:], node)
            for peer in masked:  # what each of the others had added or taken for its pair with this one
                stream = keystream(pair_seed(secret, keys[peer], binding), len(total))
                if peer < node:
                    total -= stream
                else:
                    total += stream
    return SecureSum(decode(total, asked.shapes, bits), sorted(masked), talk.dropped)


@dataclass(frozen=True)
class _Talk:
    """One session with the clients: who fell silent, and whether enough are left."""

    exchange: Exchange
    asked: SessionConfig
    dropped: dict[int, str]

    def ask(
        self, stage: str, requests: Mapping[int, RecordDict], read: Callable[[int, RecordDict], T]
    ) -> dict[int, T]:
        said = self.asked.to_record() if stage == "keys" else ConfigRecord({"session": self.asked.session})
        for request in requests.values():
            request[RECORD] = said
        answers = self.exchange(stage, requests)
        found = {}
        for node in requests:
            if node not in answers:
                self.dropped[node] = f"did not answer to {stage!r}"
                continue
            try:
                about = answers[node].config_records[RECORD]
                if "refused" in about:
                    self.dropped[node] = f"refused {stage!r}: {about['refused']!s}"
                    continue
                if about["session"] != self.asked.session:
                    raise ValueError("it belongs to another session")
                found[node] = read(node, answers[node])
            except (KeyError, TypeError, ValueError, FitError) as error:
                self.dropped[node] = f"sent an answer to {stage!r} that cannot be read: {error}"
        if len(found) < self.asked.threshold:
            raise SecureAggregationError(
                f"Secure aggregation stopped at {stage!r}: {len(found)} clients are left, and the threshold is "
                f"{self.asked.threshold}. "
                + " ".join(f"Client {n} {why}." for n, why in self.dropped.items()),
                "No numbers were opened; repeat the round as a new session.",
                stage,
                self.dropped,
            )
        return found

    def demand(self, true: bool, node: int) -> None:
        if not true:
            raise SecureAggregationError(
                f"The mask of client {node} cannot be taken away: some shares of it are false.",
                "No numbers were opened; repeat the round as a new session, with other clients if it recurs.",
                "unmask",
                self.dropped,
            )


@dataclass(frozen=True)
class _Shared:
    """What a client sent for the others, and what its own mask's seed will be held against."""

    letters: dict[int, bytes]
    commitment: bytes


def _read_keys(_: int, content: RecordDict) -> bytes:
    keys = as_bytes(content.config_records[RECORD]["keys"])
    if len(keys) != 2 * KEY_BYTES:
        raise ValueError(f"its keys have {len(keys)} bytes")
    for part in (keys, keys[KEY_BYTES:] + keys[:KEY_BYTES]):  # else all who meet this key would refuse
        pair_seed(bytes(range(32)), part, b"")
    return keys


def _shares_reader(keys: Mapping[int, bytes]) -> Callable[[int, RecordDict], _Shared]:
    def read(node: int, content: RecordDict) -> _Shared:
        letters = {int(peer): as_bytes(sealed) for peer, sealed in content.config_records["shares"].items()}
        if letters.keys() != keys.keys() - {node}:
            raise ValueError("it does not have one share for each of the others")
        return _Shared(letters, as_bytes(content.config_records[RECORD]["commitment"]))

    return read


def _opened_reader(shared: Mapping[int, _Shared]) -> Callable[[int, RecordDict], dict[int, bytes]]:
    def read(_: int, content: RecordDict) -> dict[int, bytes]:
        shares = {int(peer): as_bytes(share) for peer, share in content.config_records["shares"].items()}
        if shares.keys() != shared.keys():
            raise ValueError("it does not have one share of each client")
        return shares

    return read


def _public(mask: bytes) -> bytes:
    return public_keys(mask, mask)[KEY_BYTES:]
