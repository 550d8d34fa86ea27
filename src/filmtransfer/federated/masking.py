"""The client's part of secure aggregation: the server learns a sum, not the values of single clients.

The protocol is that of Bonawitz et al. (2017). It has four stages, one message to each client per stage:

1. ``keys``: the client generates two key pairs, one for encryption and one for masks, and sends their public keys;
2. ``shares``: it receives the public keys of all clients, and splits two secrets among them, encrypted: its private
   mask key and the seed of its own mask;
3. ``masked``: it computes its values and sends values + its own mask ± one mask for each pair of clients; the masks
   of a pair cancel in the sum;
4. ``unmask``: it receives the list of clients that answered and that dropped out, and reveals its share of the mask
   seed of each survivor or of the mask key of each dropout, never both for the same client: together they would
   reveal that client's values.

Each message may be handled by a new process, so the session is stored in ``state`` as one record: keys and seed are
deleted once the values are masked, the shares once they are revealed, and the rest of an interrupted session when the
next one starts. The client refuses, and deletes its secrets, when the server deviates from the protocol: fewer clients
than the threshold, a threshold that is not above half of them, the client's own key missing or changed, a message out
of order or sent twice.

``secure_aggregation.py`` describes which attacks this protects against.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

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
from .fixed_point import FRACTIONAL_BITS, SCORE_BITS, IntegerArray, Shapes, to_fixed_point, total_size
from .messages import UNSPECIFIED, as_bytes, client_numbers, peer_bytes, read_array

STAGES = ("keys", "shares", "masked", "unmask")
RECORD = "secure"  # the record of every message that names its session
WORK = "work."  # prefix of the records that the client's own computation needs
STATE = "secure/"  # prefix of the session's name in the client's state
MIN_CLIENTS = 2  # of a sum: the sum over one client would be its values
SURVIVED, DROPPED = "survived", "dropped"
KEY_BYTES = 32
NONCE_BYTES = 12


class ProtocolError(FitError):
    """Report a request that is not part of the protocol; the client ends the session."""


@dataclass(frozen=True)
class SessionConfig:
    """The parameters of a session. They must be the same for every client, or the masks do not cancel."""

    session: str
    threshold: int  # clients that must stay to the end, and whose shares reveal a secret
    bits: int  # fractional bits of the fixed-point encoding
    shapes: Shapes

    def __post_init__(self) -> None:
        if not self.session:
            raise ProtocolError("A session needs a name.")
        if self.threshold < MIN_CLIENTS:
            raise ProtocolError(
                f"A threshold of {self.threshold} would reveal single clients.",
                f"Use at least {MIN_CLIENTS}.",
            )
        if self.bits not in (FRACTIONAL_BITS, SCORE_BITS):
            raise ProtocolError(
                f"{self.bits} fractional bits are not used.", f"Use {FRACTIONAL_BITS} or {SCORE_BITS}."
            )

    def to_record(self) -> ConfigRecord:
        """Return the parameters as a record of a message."""
        shapes = json.dumps({name: list(shape) for name, shape in self.shapes.items()}, sort_keys=True)
        return ConfigRecord(
            {"session": self.session, "threshold": self.threshold, "bits": self.bits, "shapes": shapes}
        )

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> SessionConfig:
        """Read the parameters from a record of a message."""
        shapes = {name: tuple(map(int, shape)) for name, shape in json.loads(str(record["shapes"])).items()}
        threshold, bits = record["threshold"], record["bits"]
        if not isinstance(threshold, int) or not isinstance(bits, int):
            raise TypeError("integers were expected")
        return cls(str(record["session"]), threshold, bits, shapes)

    def binding(self, keys: Mapping[int, bytes]) -> bytes:
        """Return a digest of the session and all public keys; all derived keys and ciphertexts depend on it."""
        public = {str(node): key.hex() for node, key in keys.items()}
        text = json.dumps([dict(self.to_record()), public], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()


@dataclass(frozen=True)
class ClientSession:
    """What a client stores between two messages."""

    config: SessionConfig
    stage: str  # the last one completed; "ended" once all secrets are deleted
    encryption: bytes = b""  # private key
    mask: bytes = b""  # private key
    seed: bytes = b""  # of the client's own mask
    keys: Mapping[int, bytes] = field(default_factory=dict)  # public keys of all clients
    held: Mapping[int, bytes] = field(default_factory=dict)  # this client's shares of all clients' secrets

    def ended(self) -> ClientSession:
        """Return the same session without its secrets."""
        return ClientSession(self.config, "ended")

    def to_record(self) -> ConfigRecord:
        """Return the session as a record of the client's state."""
        secret = {"encryption": self.encryption, "mask": self.mask, "seed": self.seed}
        keys = {f"keys/{node}": key for node, key in self.keys.items()}
        held = {f"held/{node}": share for node, share in self.held.items()}
        return ConfigRecord({**self.config.to_record(), "stage": self.stage, **secret, **keys, **held})

    @classmethod
    def from_record(cls, record: Mapping[str, object]) -> ClientSession:
        """Read the session from a record of the client's state."""
        encryption, mask, seed = (as_bytes(record[name]) for name in ("encryption", "mask", "seed"))
        keys, held = (
            {int(k.removeprefix(p)): as_bytes(v) for k, v in record.items() if k.startswith(p)}
            for p in ("keys/", "held/")
        )
        return cls(
            SessionConfig.from_record(record), str(record["stage"]), encryption, mask, seed, keys, held
        )


Compute = Callable[[RecordDict], Mapping[str, npt.ArrayLike]]


def handle_message(
    stage: str,
    content: RecordDict,
    state: RecordDict,
    compute: Compute,
    node: int,
    log: Callable[[str], object] = lambda _: None,
) -> RecordDict:
    """Return the reply to a message of the protocol; ``compute(work)`` returns the arrays to be summed.

    ``state`` is updated in place. A refusal is a reply as well, so that the server can report its reason; it ends the
    session on this client. Only a reason that follows from the server's own messages is sent: any other one might
    depend on the values that the masks hide.
    """
    name = "?"
    try:
        with _reading(stage):
            name = str(content.config_records[RECORD]["session"])
        session, reply = _handle_stage(stage, name, content, state, compute, node)
    except FitError as error:
        if (broken := _load_session(state, name)) is not None:
            state[STATE + name] = broken.ended().to_record()
        log(f"The request is refused: {error}")
        reason = str(error) if isinstance(error, ProtocolError) else UNSPECIFIED
        return RecordDict({RECORD: ConfigRecord({"session": name, "refused": reason})})
    for other in [key for key in state if key.startswith(STATE) and key != STATE + name]:
        del state[other]  # a server runs one session at a time: other sessions were interrupted
    state[STATE + name] = session.to_record()
    reply[RECORD] = ConfigRecord({**reply.config_records.get(RECORD, {}), "session": name})
    return reply


def _handle_stage(
    stage: str, name: str, content: RecordDict, state: RecordDict, compute: Compute, node: int
) -> tuple[ClientSession, RecordDict]:
    session = _load_session(state, name)
    if stage == "keys":
        if session is not None:
            raise ProtocolError(
                f"The session {name!r} was started before.", "Use a new name for each session."
            )
        with _reading(stage):
            config = SessionConfig.from_record(content.config_records[RECORD])
        return generate_keys(config)
    if stage not in STAGES:
        raise ProtocolError(f"There is no message {stage!r} in the protocol.")
    if session is None:
        raise ProtocolError(
            f"There is no session {name!r} here.", "This client did not take part, or it was restarted."
        )
    if session.stage != STAGES[STAGES.index(stage) - 1]:
        raise ProtocolError(
            f"The message {stage!r} is out of order: the session {name!r} is at {session.stage!r}."
        )
    if stage == "shares":
        with _reading(stage):
            keys = peer_bytes(content, "keys")
        return share_secrets(session, keys, node)
    if stage == "masked":
        with _reading(stage):
            shares = peer_bytes(content, "shares")
        work = masked_work(content)
        return mask_values(session, shares, lambda: compute(work), node)
    with _reading(stage):
        record = content.config_records["fates"]
        fates = dict(zip(client_numbers(record), map(str, record.values()), strict=True))
    return reveal_shares(session, fates, node)


def _load_session(state: RecordDict, name: str) -> ClientSession | None:
    record = state.config_records.get(STATE + name)
    return None if record is None else ClientSession.from_record(record)


@contextmanager
def _reading(stage: str) -> Iterator[None]:
    """Refuse a message with missing or malformed parts; errors of the client's own computation are not caught here."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise ProtocolError(
            f"The message {stage!r} cannot be read ({type(error).__name__}: {str(error)[:80]})."
        ) from error


def masked_work(content: RecordDict) -> RecordDict:
    """Return the request for the client's own computation inside a request for masked values."""
    return RecordDict({key.removeprefix(WORK): content[key] for key in content if key.startswith(WORK)})


# The four stages.


def generate_keys(config: SessionConfig) -> tuple[ClientSession, RecordDict]:
    """Stage ``keys``: generate both key pairs and the seed of the client's own mask."""
    encryption, mask = (X25519PrivateKey.generate().private_bytes_raw() for _ in range(2))
    session = ClientSession(config, "keys", encryption, mask, secrets.token_bytes(shamir.SECRET_BYTES))
    return session, RecordDict({RECORD: ConfigRecord({"keys": derive_public_keys(encryption, mask)})})


def share_secrets(
    session: ClientSession, keys: Mapping[int, bytes], node: int
) -> tuple[ClientSession, RecordDict]:
    """Stage ``shares``: split the mask key and the seed among all clients, encrypted for each of them."""
    threshold = session.config.threshold
    if len(keys) < threshold:
        raise ProtocolError(f"{len(keys)} clients are fewer than the threshold of {threshold}.")
    if 2 * threshold <= len(keys):
        raise ProtocolError(f"A threshold of {threshold} is not above half of {len(keys)} clients.")
    if keys.get(node) != derive_public_keys(session.encryption, session.mask):
        raise ProtocolError("This client's own keys are missing from the list, or changed.")
    if len(set(keys.values())) < len(keys) or {len(key) for key in keys.values()} != {2 * KEY_BYTES}:
        raise ProtocolError("The list has keys twice, or of a wrong length.")
    binding = session.config.binding(keys)
    nodes = sorted(keys)
    of_key, of_seed = (shamir.split(s, threshold, len(nodes)) for s in (session.mask, session.seed))
    shares = [a + b for a, b in zip(of_key, of_seed, strict=True)]
    encrypted = ConfigRecord()
    for peer, share in zip(nodes, shares, strict=True):
        if peer == node:
            continue
        nonce = secrets.token_bytes(NONCE_BYTES)
        cipher = _cipher(session, keys[peer], binding)
        data = _associated_data(session, node, peer, binding)
        encrypted[str(peer)] = nonce + cipher.encrypt(nonce, share, data)
    reply = RecordDict(
        {RECORD: ConfigRecord({"commitment": commitment(session.seed, binding)}), "shares": encrypted}
    )
    held = {node: shares[nodes.index(node)]}
    return replace(session, stage="shares", keys=dict(keys), held=held), reply


def mask_values(
    session: ClientSession,
    encrypted: Mapping[int, bytes],
    compute: Callable[[], Mapping[str, npt.ArrayLike]],
    node: int,
) -> tuple[ClientSession, RecordDict]:
    """Stage ``masked``: compute the values and add the client's own mask and those of its pairs."""
    config, keys = session.config, session.keys
    if node in encrypted or not encrypted.keys() <= keys.keys():
        raise ProtocolError("The shares come from clients that are not in the list of keys.")
    if len(encrypted) + 1 < config.threshold:
        raise ProtocolError(
            f"{len(encrypted) + 1} clients are fewer than the threshold of {config.threshold}."
        )
    binding = config.binding(keys)
    held = dict(session.held)
    for peer, ciphertext in encrypted.items():
        held[peer] = _decrypt_share(session, peer, node, ciphertext, binding)
    values = to_fixed_point(compute(), config.shapes, config.bits, len(keys))
    values += keystream(session.seed, len(values))
    for peer in encrypted:
        mask = keystream(pair_seed(session.mask, keys[peer], binding), len(values))
        values = values + mask if node < peer else values - mask
    kept = replace(session, stage="masked", encryption=b"", mask=b"", seed=b"", keys={}, held=held)
    return kept, RecordDict({"masked": ArrayRecord({"masked": Array(values)})})


def reveal_shares(
    session: ClientSession, fates: Mapping[int, str], node: int
) -> tuple[ClientSession, RecordDict]:
    """Stage ``unmask``: reveal one share per client, of its seed or of its mask key, and end the session."""
    survived = [peer for peer, fate in fates.items() if fate == SURVIVED]
    if fates.keys() != session.held.keys() or set(fates.values()) - {SURVIVED, DROPPED}:
        raise ProtocolError("Not every client of the session has either survived or dropped out.")
    if node not in survived:
        raise ProtocolError("This client is asked to reveal its own values as if it had not sent them.")
    if len(survived) < session.config.threshold:
        raise ProtocolError(
            f"{len(survived)} clients are fewer than the threshold of {session.config.threshold}."
        )
    shares = ConfigRecord()
    for peer, fate in fates.items():
        of_key, of_seed = session.held[peer][: shamir.SHARE_BYTES], session.held[peer][shamir.SHARE_BYTES :]
        shares[str(peer)] = of_seed if fate == SURVIVED else of_key
    return session.ended(), RecordDict({"shares": shares})


# Keys, masks and ciphers; the server needs some of them to remove the masks.


def derive_public_keys(encryption: bytes, mask: bytes) -> bytes:
    """Return the public keys of both private keys, concatenated."""
    return b"".join(
        X25519PrivateKey.from_private_bytes(key).public_key().public_bytes_raw() for key in (encryption, mask)
    )


def pair_seed(mask: bytes, keys: bytes, binding: bytes) -> bytes:
    """Derive the seed of a pair's mask from the private mask key of one and the public keys of the other."""
    return _shared_secret(mask, keys[KEY_BYTES:], b"filmtransfer secure mask" + binding)


def keystream(seed: bytes, count: int) -> IntegerArray:
    """Return a mask of 64-bit integers: the AES-CTR keystream of a key that is used only once."""
    mask = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(8 * count))
    return np.frombuffer(mask, dtype="<u8").astype(np.uint64, copy=False)


def commitment(seed: bytes, binding: bytes) -> bytes:
    """Return a commitment by which the server can verify the reconstructed seed; it reveals nothing before."""
    return hashlib.sha256(b"filmtransfer secure seed" + binding + seed).digest()


def read_masked(masked: Array, shapes: Shapes) -> IntegerArray:
    """Read the masked values of a reply."""
    values = read_array(masked)
    if values.dtype != np.uint64 or values.shape != (total_size(shapes),):
        raise ValueError(f"the masked values are {values.dtype} of the shape {values.shape}")
    return values


def _shared_secret(private: bytes, public: bytes, purpose: bytes) -> bytes:
    try:
        peer = X25519PublicKey.from_public_bytes(public)
        shared = X25519PrivateKey.from_private_bytes(private).exchange(peer)
    except ValueError as error:  # a point of small order: anybody could know the "secret"
        raise ProtocolError("A client's public key is not usable.") from error
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=purpose).derive(shared)


def _cipher(session: ClientSession, keys: bytes, binding: bytes) -> AESGCM:
    return AESGCM(
        _shared_secret(session.encryption, keys[:KEY_BYTES], b"filmtransfer secure shares" + binding)
    )


def _associated_data(session: ClientSession, sender: int, receiver: int, binding: bytes) -> bytes:
    """Return what a ciphertext is bound to: session, stage, keys, sender and receiver."""
    return json.dumps([session.config.session, "shares", str(sender), str(receiver), binding.hex()]).encode()


def _decrypt_share(
    session: ClientSession, sender: int, receiver: int, ciphertext: bytes, binding: bytes
) -> bytes:
    cipher = _cipher(session, session.keys[sender], binding)
    nonce, rest = ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:]
    try:
        share = cipher.decrypt(nonce, rest, _associated_data(session, sender, receiver, binding))
    except (InvalidTag, ValueError) as error:
        raise ProtocolError(f"The share from the client {sender} was changed in transit.") from error
    if len(share) != 2 * shamir.SHARE_BYTES:
        raise ProtocolError(f"The share from the client {sender} has {len(share)} bytes.")
    return share
