"""Secure aggregation, the client's part: the server learns a sum and no one's numbers.

The protocol is that of Bonawitz et al. (2017), four messages long:

1. ``keys``: the client makes two key pairs and shows their public halves: one to encrypt, one for masks;
2. ``shares``: it is told everybody's keys, and splits two secrets of its own among them, encrypted: its mask key
   and the seed of a mask of its own;
3. ``masked``: it does the work and answers with its numbers + its own mask ± a mask for each pair of clients;
   those of a pair cancel in the sum;
4. ``unmask``: it is told who answered and who did not, and hands out its share of the own mask of each who did,
   or of the mask key of each who did not. Never both of the same client: together they would open its numbers.

Each message may be handled by a new process, so what is to be remembered lies in ``state``, one record, of one
session: keys and seed are forgotten once the numbers are masked, the shares once they are handed out, and
whatever is left of a broken session when the next one begins. The client refuses, and forgets, when the server
leaves the protocol: fewer clients than the threshold, a threshold not above half of them, its own key missing
or changed, a message out of turn or a second time.

What the numbers are protected against is said in ``secure_aggregation.py``.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from ..errors import FitError
from . import shamir
from .fixed_point import MOST_BITS, Shapes, Words, encode, size

STAGES = ("keys", "shares", "masked", "unmask")
RECORD = "secure"  # of every message: its session
WORK = "work."  # before the names of the records that the client's own work needs
STATE = "secure/"  # before the session's name, in the client's state
LEAST = 2  # clients of a sum: that of one is no secret
SURVIVED, DROPPED = "survived", "dropped"
KEY_BYTES = 32
NONCE_BYTES = 12


class ProtocolError(FitError):
    """A client does not go on: the server asked for something that is not in the protocol."""


@dataclass(frozen=True)
class SessionConfig:
    """What a session is about; every client sees the same, or their masks do not cancel."""

    session: str
    threshold: int  # clients that have to stay to the end, and whose shares open a secret
    bits: int  # binary places
    shapes: Shapes

    def __post_init__(self) -> None:
        if not self.session:
            raise ProtocolError("A session needs a name.")
        if self.threshold < LEAST:
            raise ProtocolError(
                f"A threshold of {self.threshold} would show single clients.", f"Use {LEAST} or more."
            )
        if not 0 <= self.bits <= MOST_BITS:
            raise ProtocolError(f"{self.bits} binary places are not possible.", f"Use 0 to {MOST_BITS}.")

    def to_record(self) -> ConfigRecord:
        shapes = json.dumps({name: list(shape) for name, shape in self.shapes.items()}, sort_keys=True)
        return ConfigRecord(
            {"session": self.session, "threshold": self.threshold, "bits": self.bits, "shapes": shapes}
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> SessionConfig:
        shapes = {name: tuple(map(int, shape)) for name, shape in json.loads(record["shapes"]).items()}
        return cls(str(record["session"]), int(record["threshold"]), int(record["bits"]), shapes)

    def binding(self, keys: Mapping[int, bytes]) -> bytes:
        """A digest of the session and of everybody's keys; all that is encrypted or derived is bound to it."""
        said = {str(node): key.hex() for node, key in keys.items()}
        text = json.dumps([dict(self.to_record()), said], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class Session:
    """What a client remembers between two messages."""

    asked: SessionConfig
    stage: str  # the last that was answered; "ended" when nothing is left to be told
    encryption: bytes = b""  # private key
    mask: bytes = b""  # private key
    seed: bytes = b""  # of the client's own mask
    keys: Mapping[int, bytes] = field(default_factory=dict)  # everybody's public ones
    held: Mapping[int, bytes] = field(default_factory=dict)  # this client's shares of everybody's secrets

    def ended(self) -> Session:
        """The same session with all secrets forgotten."""
        return Session(self.asked, "ended")

    def to_record(self) -> ConfigRecord:
        secret = {"encryption": self.encryption, "mask": self.mask, "seed": self.seed}
        keys = {f"keys/{node}": key for node, key in self.keys.items()}
        held = {f"held/{node}": share for node, share in self.held.items()}
        return ConfigRecord({**self.asked.to_record(), "stage": self.stage, **secret, **keys, **held})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Session:
        encryption, mask, seed = (bytes(record[name]) for name in ("encryption", "mask", "seed"))
        keys, held = (
            {int(k.removeprefix(p)): bytes(v) for k, v in record.items() if k.startswith(p)}
            for p in ("keys/", "held/")
        )
        return cls(
            SessionConfig.from_record(record), str(record["stage"]), encryption, mask, seed, keys, held
        )


Compute = Callable[[RecordDict], Mapping[str, npt.ArrayLike]]


def answer(kind: str, content: RecordDict, state: RecordDict, compute: Compute, node: int) -> RecordDict:
    """Answer one message of the protocol; ``state`` is changed, ``compute(work)`` gives what is to be summed.

    A refusal is an answer too, so that the server can name its reason; it ends the session on this client.
    """
    name = "?"
    try:
        with _reading(kind):
            name = str(content.config_records[RECORD]["session"])
        session, reply = _step(kind, name, content, state, compute, node)
    except FitError as error:
        if (found := _find(state, name)) is not None:
            state[STATE + name] = found.ended().to_record()
        return RecordDict({RECORD: ConfigRecord({"session": name, "refused": str(error)})})
    for other in [key for key in state if key.startswith(STATE) and key != STATE + name]:
        del state[other]  # a server runs one session at a time: what is left of others was broken off
    state[STATE + name] = session.to_record()
    reply[RECORD] = ConfigRecord({**reply.config_records.get(RECORD, {}), "session": name})
    return reply


def _step(
    kind: str, name: str, content: RecordDict, state: RecordDict, compute: Compute, node: int
) -> tuple[Session, RecordDict]:
    session = _find(state, name)
    if kind == "keys":
        if session is not None:
            raise ProtocolError(f"The session {name!r} was begun before.", "Give each a name of its own.")
        with _reading(kind):
            asked = SessionConfig.from_record(content.config_records[RECORD])
        return make_keys(asked)
    if kind not in STAGES:
        raise ProtocolError(f"There is no message {kind!r} in the protocol.")
    if session is None:
        raise ProtocolError(
            f"There is no session {name!r} here.", "This client did not take part, or was started anew."
        )
    if session.stage != STAGES[STAGES.index(kind) - 1]:
        raise ProtocolError(
            f"The message {kind!r} comes out of turn: the session {name!r} is at {session.stage!r}."
        )
    if kind == "shares":
        with _reading(kind):
            keys = {int(peer): as_bytes(key) for peer, key in content.config_records["keys"].items()}
        return share_secrets(session, keys, node)
    if kind == "masked":
        with _reading(kind):
            letters = {
                int(peer): as_bytes(sealed) for peer, sealed in content.config_records["shares"].items()
            }
        work = RecordDict({key.removeprefix(WORK): content[key] for key in content if key.startswith(WORK)})
        return mask_numbers(session, letters, lambda: compute(work), node)
    with _reading(kind):
        fates = {int(peer): str(fate) for peer, fate in content.config_records["fates"].items()}
    return hand_out(session, fates, node)


def _find(state: RecordDict, name: str) -> Session | None:
    record = state.config_records.get(STATE + name)
    return None if record is None else Session.from_record(record)


@contextmanager
def _reading(kind: str) -> Iterator[None]:
    """A message without its parts is refused like one with false parts; the client's own work is not in here."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ProtocolError(
            f"The message {kind!r} cannot be read ({type(error).__name__}: {error})."
        ) from error


def as_bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("bytes were expected")
    return value


# The four steps.


def make_keys(asked: SessionConfig) -> tuple[Session, RecordDict]:
    encryption, mask = (X25519PrivateKey.generate().private_bytes_raw() for _ in range(2))
    session = Session(asked, "keys", encryption, mask, secrets.token_bytes(shamir.SECRET_BYTES))
    return session, RecordDict({RECORD: ConfigRecord({"keys": public_keys(encryption, mask)})})


def share_secrets(session: Session, keys: Mapping[int, bytes], node: int) -> tuple[Session, RecordDict]:
    threshold = session.asked.threshold
    if len(keys) < threshold:
        raise ProtocolError(f"{len(keys)} clients are fewer than the threshold of {threshold}.")
    if 2 * threshold <= len(keys):
        raise ProtocolError(f"A threshold of {threshold} is not above half of {len(keys)} clients.")
    if keys.get(node) != public_keys(session.encryption, session.mask):
        raise ProtocolError("This client's own keys are missing from the list, or changed.")
    if len(set(keys.values())) < len(keys) or {len(key) for key in keys.values()} != {2 * KEY_BYTES}:
        raise ProtocolError("The list has keys twice, or of a wrong length.")
    binding = session.asked.binding(keys)
    nodes = sorted(keys)
    shares = [
        a + b
        for a, b in zip(
            shamir.split(session.mask, threshold, len(nodes)),
            shamir.split(session.seed, threshold, len(nodes)),
            strict=True,
        )
    ]
    encrypted = ConfigRecord()
    for peer, share in zip(nodes, shares, strict=True):
        if peer == node:
            continue
        nonce = secrets.token_bytes(NONCE_BYTES)
        cipher = _cipher(session, keys[peer], binding)
        encrypted[str(peer)] = nonce + cipher.encrypt(nonce, share, _label(session, node, peer, binding))
    reply = RecordDict(
        {RECORD: ConfigRecord({"commitment": commitment(session.seed, binding)}), "shares": encrypted}
    )
    held = {node: shares[nodes.index(node)]}
    return replace(session, stage="shares", keys=dict(keys), held=held), reply


def mask_numbers(
    session: Session,
    encrypted: Mapping[int, bytes],
    compute: Callable[[], Mapping[str, npt.ArrayLike]],
    node: int,
) -> tuple[Session, RecordDict]:
    asked, keys = session.asked, session.keys
    if node in encrypted or not encrypted.keys() <= keys.keys():
        raise ProtocolError("The shares come from clients that are not in the list of keys.")
    if len(encrypted) + 1 < asked.threshold:
        raise ProtocolError(
            f"{len(encrypted) + 1} clients are fewer than the threshold of {asked.threshold}."
        )
    binding = asked.binding(keys)
    held = dict(session.held)
    for peer, sealed in encrypted.items():
        held[peer] = _open(session, peer, node, sealed, binding)
    words = encode(compute(), asked.shapes, asked.bits, len(keys))
    words += keystream(session.seed, len(words))
    for peer in encrypted:
        stream = keystream(pair_seed(session.mask, keys[peer], binding), len(words))
        if node < peer:
            words += stream
        else:
            words -= stream
    kept = replace(session, stage="masked", encryption=b"", mask=b"", seed=b"", keys={}, held=held)
    return kept, RecordDict({"masked": ArrayRecord({"masked": Array(words)})})


def hand_out(session: Session, fates: Mapping[int, str], node: int) -> tuple[Session, RecordDict]:
    """The end of the session: a client's fate is one of two, so that one of its two secrets is opened at most."""
    survived = [peer for peer, fate in fates.items() if fate == SURVIVED]
    if fates.keys() != session.held.keys() or set(fates.values()) - {SURVIVED, DROPPED}:
        raise ProtocolError("Not every client of the session is either there or gone.")
    if node not in survived:
        raise ProtocolError("This client is asked to open its own numbers as if it had not sent them.")
    if len(survived) < session.asked.threshold:
        raise ProtocolError(
            f"{len(survived)} clients are fewer than the threshold of {session.asked.threshold}."
        )
    shares = ConfigRecord()
    for peer, fate in fates.items():
        of_key, of_seed = session.held[peer][: shamir.SHARE_BYTES], session.held[peer][shamir.SHARE_BYTES :]
        shares[str(peer)] = of_seed if fate == SURVIVED else of_key
    return session.ended(), RecordDict({"shares": shares})


# Keys, masks and ciphers; the server needs some of them to take the masks away.


def public_keys(encryption: bytes, mask: bytes) -> bytes:
    """The two public halves, one after the other."""
    return b"".join(
        X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() for key in (encryption, mask)
    )


def pair_seed(mask: bytes, keys: bytes, binding: bytes) -> bytes:
    """The seed of the mask of a pair: from the private mask key of one and the public keys of the other."""
    return _agree(mask, keys[KEY_BYTES:], b"filmtransfer secure mask" + binding)


def keystream(seed: bytes, count: int) -> Words:
    """A mask: AES-CTR with a key that is never used twice, as whole numbers of 64 bits."""
    stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(8 * count))
    return np.frombuffer(stream, dtype="<u8").astype(np.uint64, copy=False)


def commitment(seed: bytes, binding: bytes) -> bytes:
    """Lets the server see whether the seed it put together is the true one, and tells it nothing before."""
    return hashlib.sha256(b"filmtransfer secure seed" + binding + seed).digest()


def numbers(masked: Array, shapes: Shapes) -> Words:
    """The masked numbers of an answer."""
    words = masked.numpy()
    if words.dtype != np.uint64 or words.shape != (size(shapes),):
        raise ValueError(f"the masked numbers are {words.dtype} of the shape {words.shape}")
    return words


def _agree(private: bytes, public: bytes, purpose: bytes) -> bytes:
    try:
        peer = X25519PublicKey.from_public_bytes(public)
        shared = X25519PrivateKey.from_private_bytes(private).exchange(peer)
    except ValueError as error:  # a point of small order: anybody could know the "secret"
        raise ProtocolError("A client's public key is not usable.") from error
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=purpose).derive(shared)


def _cipher(session: Session, keys: bytes, binding: bytes) -> AESGCM:
    return AESGCM(_agree(session.encryption, keys[:KEY_BYTES], b"filmtransfer secure shares" + binding))


def _label(session: Session, sender: int, receiver: int, binding: bytes) -> bytes:
    """What a ciphertext belongs to: the session, its stage, its keys, from whom and to whom."""
    return json.dumps([session.asked.session, "shares", str(sender), str(receiver), binding.hex()]).encode()


def _open(session: Session, sender: int, receiver: int, sealed: bytes, binding: bytes) -> bytes:
    cipher = _cipher(session, session.keys[sender], binding)
    nonce, rest = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        share = cipher.decrypt(nonce, rest, _label(session, sender, receiver, binding))
    except (InvalidTag, ValueError) as error:
        raise ProtocolError(f"The share from the client {sender} was changed on its way.") from error
    if len(share) != 2 * shamir.SHARE_BYTES:
        raise ProtocolError(f"The share from the client {sender} has {len(share)} bytes.")
    return share
