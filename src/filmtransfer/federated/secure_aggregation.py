"""The server's part of secure aggregation: a sum over clients, any of which may drop out at any time.

Guarantee: a server that follows the protocol but inspects all it receives, together with up to threshold − 1 of the
clients, learns the sum over the other clients and nothing else about their values: each client's message is masked by
keystreams that it does not know. Late and lost replies do not change that.

Not guaranteed:

- *Authentic keys.* The server forwards the clients' public keys, and the identity of a client is what Flower, hence
  the server, reports. A malicious server may invent clients, and with threshold − 1 of them it learns a sum over one.
  Preventing that would require keys signed by an authority that is not the server; they are not.
- *Consistency.* A malicious server may send clients different lists. It cannot collect both secrets of a client: each
  other client reveals one of them, once, and the threshold is above half (with m colluding clients it has to be above
  (n + m)/2). But the paper's additional round against such a server, in which clients sign the list of survivors, is
  not implemented.
- *Robustness.* Nobody sees the values of a single client, so nobody can see that they are implausible, and a client
  that sends false shares can spoil a round (which is detected and reported, but not attributed).
- *Privacy of the sum.* A sum reveals something, and the difference of two sums over almost the same clients with the
  same model reveals the values of the additional client. Differential privacy addresses that (``privacy.py``).

Which clients take part, when, and the shapes of the summed arrays are public.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from flwr.app import ConfigRecord, RecordDict

from ..errors import FitError, UsageError
from . import shamir
from .fixed_point import FRACTIONAL_BITS, FloatArray, IntegerArray, Shapes, from_fixed_point
from .masking import (
    DROPPED,
    KEY_BYTES,
    MIN_CLIENTS,
    NONCE_BYTES,
    RECORD,
    SURVIVED,
    WORK,
    SessionConfig,
    commitment,
    derive_public_keys,
    keystream,
    pair_seed,
    read_masked,
)
from .messages import as_bytes, one_line, peer_bytes

COMMITMENT_BYTES = 32
ENCRYPTED_BYTES = NONCE_BYTES + 2 * shamir.SHARE_BYTES + 16  # a nonce, two shares, and the tag of AES-GCM

Exchange = Callable[[str, Mapping[int, RecordDict]], Mapping[int, RecordDict]]
T = TypeVar("T")


class SecureAggregationError(FitError):
    """Report that too few clients stayed or their replies do not match; neither a sum nor any value is known."""

    def __init__(self, message: str, hint: str, stage: str, dropped: Mapping[int, str]) -> None:
        super().__init__(message, hint)
        self.stage = stage
        self.dropped = dict(dropped)


@dataclass(frozen=True)
class SecureSum:
    """The sums of a session, and which clients contributed to them."""

    sums: dict[str, FloatArray]
    contributed: list[int]
    dropped: dict[int, str]  # the reason for each client; one that failed only at "unmask" has contributed


def majority(clients: int) -> int:
    """Return the lowest threshold that clients accept: it tolerates most dropouts, and fewest colluding clients."""
    return max(MIN_CLIENTS, clients // 2 + 1)


def secure_sum(
    exchange: Exchange,
    work: Mapping[int, RecordDict],
    *,
    threshold: int,
    session: str,
    shapes: Shapes,
    bits: int = FRACTIONAL_BITS,
    name_of: Callable[[int], str] = "Client {}".format,
) -> SecureSum:
    """Sum the arrays that ``compute`` returns for the work of each node; they have these names and shapes.

    ``exchange(stage, requests)`` sends one message "query.secure_<stage>" to each node and returns the contents of
    the replies. ``session`` must be new each time, also when a round is repeated. ``name_of`` is for errors.
    """
    if not MIN_CLIENTS <= threshold <= len(work) or 2 * threshold <= len(work):
        raise UsageError(
            f"A threshold of {threshold} does not suit {len(work)} clients.",
            f"It is at least {MIN_CLIENTS}, above half of the clients, and at most all of them.",
        )
    config = SessionConfig(session, threshold, bits, {name: tuple(shape) for name, shape in shapes.items()})
    server = _ServerSession(exchange, config, name_of, {})

    keys = server.ask("keys", {node: RecordDict() for node in work}, _read_keys)
    binding = config.binding(keys)

    listed = ConfigRecord({str(node): key for node, key in keys.items()})
    shared = server.ask(
        "shares",
        {node: RecordDict({"keys": listed}) for node in keys},
        lambda node, content: _read_secrets(content, keys.keys() - {node}),
    )

    requests = {}
    for node in shared:
        shares = ConfigRecord({str(peer): shared[peer].shares[node] for peer in shared if peer != node})
        needed = {WORK + key: record for key, record in work[node].items()}
        requests[node] = RecordDict({"shares": shares, **needed})
    masked = server.ask(
        "masked",
        requests,
        lambda _, content: read_masked(content.array_records["masked"]["masked"], config.shapes),
    )

    fates = ConfigRecord({str(node): SURVIVED if node in masked else DROPPED for node in shared})
    revealed = server.ask(
        "unmask",
        {node: RecordDict({"fates": fates}) for node in masked},
        lambda _, content: _read_shares(content, shared.keys()),
    )

    total: IntegerArray = np.sum(list(masked.values()), axis=0, dtype=np.uint64)
    position = {node: number for number, node in enumerate(sorted(keys), start=1)}
    for node in shared:
        enough = {position[peer]: revealed[peer][node] for peer in sorted(revealed)[:threshold]}
        secret = b""
        with suppress(ValueError):
            secret = shamir.combine(enough)
        if node in masked:
            server.check_secret(commitment(secret, binding) == shared[node].commitment, node)
            total -= keystream(secret, len(total))
        else:
            server.check_secret(len(secret) > 0 and _public_mask_key(secret) == keys[node][KEY_BYTES:], node)
            for peer in masked:  # what each survivor had added or subtracted for its pair with this one
                mask = keystream(pair_seed(secret, keys[peer], binding), len(total))
                total = total - mask if peer < node else total + mask
    return SecureSum(from_fixed_point(total, config.shapes, bits), sorted(masked), server.dropped)


@dataclass(frozen=True)
class _ServerSession:
    """One session with the clients: which of them dropped out, and whether enough are left."""

    exchange: Exchange
    config: SessionConfig
    name_of: Callable[[int], str]
    dropped: dict[int, str]

    def ask(
        self, stage: str, requests: Mapping[int, RecordDict], read: Callable[[int, RecordDict], T]
    ) -> dict[int, T]:
        """Send the requests of a stage and return what ``read`` finds in the replies, by node."""
        config = self.config
        record = config.to_record() if stage == "keys" else ConfigRecord({"session": config.session})
        for request in requests.values():
            request[RECORD] = record
        replies = self.exchange(stage, requests)
        results = {}
        for node in requests:
            if node not in replies:
                self.dropped[node] = f"did not answer to {stage!r}"
                continue
            try:
                header = replies[node].config_records[RECORD]
                if "refused" in header:
                    self.dropped[node] = f"refused {stage!r}: {one_line(header['refused'])}"
                    continue
                if header["session"] != config.session:
                    raise ValueError("it belongs to another session")
                results[node] = read(node, replies[node])
            except (KeyError, TypeError, ValueError, FitError) as error:
                self.dropped[node] = f"sent a reply to {stage!r} that cannot be read: {one_line(error)}"
        if len(results) < config.threshold:
            raise SecureAggregationError(
                f"Secure aggregation stopped at {stage!r}: {len(results)} clients are left, and the threshold is "
                f"{config.threshold}. "
                + " ".join(f"{self.name_of(n)} {why}." for n, why in self.dropped.items()),
                "No values were revealed; repeat the round as a new session.",
                stage,
                self.dropped,
            )
        return results

    def check_secret(self, valid: bool, node: int) -> None:
        """Stop if the reconstructed secret of a client is not the one it committed to."""
        if not valid:
            raise SecureAggregationError(
                f"The mask of {self.name_of(node)} cannot be removed: some of its shares are false.",
                "No values were revealed; repeat the round as a new session, with other clients if it recurs.",
                "unmask",
                self.dropped,
            )


@dataclass(frozen=True)
class _SharedSecrets:
    """The encrypted shares that a client sent for the others, and the commitment to its mask's seed."""

    shares: dict[int, bytes]
    commitment: bytes


def _read_keys(_: int, content: RecordDict) -> bytes:
    keys = as_bytes(content.config_records[RECORD]["keys"])
    if len(keys) != 2 * KEY_BYTES:
        raise ValueError(f"its keys have {len(keys)} bytes")
    for part in (keys, keys[KEY_BYTES:] + keys[:KEY_BYTES]):  # all clients would refuse an unusable key
        pair_seed(bytes(range(32)), part, b"")
    return keys


def _read_secrets(content: RecordDict, expected: Set[int]) -> _SharedSecrets:
    commitment = as_bytes(content.config_records[RECORD]["commitment"])
    shares = _read_shares(content, expected)
    if len(commitment) != COMMITMENT_BYTES or {len(share) for share in shares.values()} - {ENCRYPTED_BYTES}:
        raise ValueError("its shares or its commitment do not have the length of the protocol")
    return _SharedSecrets(shares, commitment)


def _read_shares(content: RecordDict, expected: Set[int]) -> dict[int, bytes]:
    shares = peer_bytes(content, "shares")
    if shares.keys() != expected:
        raise ValueError("it does not have one share for each of the clients")
    return shares


def _public_mask_key(mask: bytes) -> bytes:
    return derive_public_keys(mask, mask)[KEY_BYTES:]
