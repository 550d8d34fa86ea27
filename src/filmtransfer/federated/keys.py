"""Keys of a federation: an authority of its own, a certificate for the server, a key pair for every client.

The authority signs the server's certificate, so a client that holds ``ca.crt`` knows whom it talks to. A client
signs each of its requests with its own key, and the server lets in those whose public half lies in ``nodes/``.

    ca.crt ca.key                      the authority; ca.key is needed only to make certificates
    server.crt server.key              what the server shows
    nodes/anna.pub                     who may take part
    clients/anna/ca.crt, node.key      what anna gets, and nobody else
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import MissingExtraError, UsageError
from ..files import write_atomically

try:  # it comes with flwr
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_ssh_private_key,
        load_ssh_public_key,
    )
except ImportError:
    raise MissingExtraError("fit federate", "federated") from None

from .certificates import (
    SERVER_DAYS,
    Certificate,
    KeysError,
    alternative_name,
    load_certificate,
    load_private,
    make_authority,
    make_folder,
    make_server_certificate,
    read_certificate,
    read_file,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class CreatedKeys:
    """What one call of :func:`make_keys` changed."""

    authority: bool
    server: bool
    clients: tuple[str, ...]


def make_keys(
    folder: str | Path,
    hosts: Sequence[str] = (),
    clients: Sequence[str] = (),
    *,
    days: int | None = None,
    renew: bool = False,
    force: bool = False,
) -> CreatedKeys:
    """Make what is missing; run again it adds clients, and with ``renew`` a new server certificate.

    The authority is made once and never replaced: every client would have to get the new one.
    """
    place = Path(folder)
    for name in clients:
        check_name(name)
    for host in hosts:
        alternative_name(host)
    taken = [name for name in clients if _client_exists(place, name)]
    if taken and not force:
        raise KeysError(
            f"{', '.join(taken)} already {'has a key' if len(taken) == 1 else 'have keys'} in {place}.",
            "Leave them out, or make new ones with --force: the server then refuses the old ones.",
        )
    new_authority = not (place / "ca.crt").exists()
    if new_authority:
        make_authority(place)
    new_server = not (place / "server.crt").exists() or renew
    before = () if not (place / "server.crt").exists() else read_certificate(place / "server.crt").hosts
    lacking = [host for host in hosts if host not in before]
    if before and lacking and not renew:
        raise KeysError(
            f"The certificate of the server is not for {', '.join(lacking)}.",
            "Add --renew to make a new one that is; the clients need nothing new.",
        )
    if new_server:
        make_server_certificate(place, (*before, *hosts), days=SERVER_DAYS if days is None else days)
    for name in clients:
        make_client_key(place, name, force=force)
    return CreatedKeys(new_authority, new_server, tuple(clients))


def make_client_key(folder: str | Path, name: str, *, force: bool = False) -> Path:
    """A key pair for a client; returns the folder to hand to it."""
    place = Path(folder)
    check_name(name)
    if _client_exists(place, name) and not force:
        raise KeysError(
            f"{name} already has a key in {place}.",
            "Make a new one with --force: the server then refuses the old one.",
        )
    key = ec.generate_private_key(ec.SECP384R1())
    parcel = make_folder(make_folder(place / "clients") / name)
    make_folder(place / "nodes")
    # The format that flwr reads: OpenSSH, without a password.
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_atomically(parcel / "ca.crt", read_file(place / "ca.crt"))
    write_atomically(parcel / "node.key", private, private=True)
    write_atomically(place / "nodes" / f"{name}.pub", public + f" {name}\n".encode())
    return parcel


def public_keys(folder: str | Path) -> dict[str, bytes]:
    """Who may take part: name → public key, as flwr's server wants it."""
    found: dict[str, bytes] = {}
    for file in sorted((Path(folder) / "nodes").glob("*.pub")):
        check_name(file.stem)
        try:
            key = load_ssh_public_key(read_file(file))
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise KeysError(
                f"{file} is not a public key on a NIST curve.",
                "Make it with: fit federate keys FOLDER --client NAME",
            )
        found[file.stem] = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    twins = len(found) - len(set(found.values()))
    if twins:
        raise KeysError(
            f"{Path(folder) / 'nodes'} holds the same key under two names.", "Give every client its own key."
        )
    return found


def check_server_keys(folder: str | Path) -> Certificate:
    """All that a server needs is there, belongs together and is valid today."""
    place = Path(folder)
    if not place.is_dir():
        raise KeysError(
            f"There is no folder {place} with keys.",
            f"Make them with: fit federate keys {place} --client NAME",
        )
    for file in ("ca.crt", "server.crt", "server.key"):
        if not (place / file).is_file():
            raise KeysError(f"{place} has no {file}.", f"Make it with: fit federate keys {place}")
    read_certificate(place / "ca.crt").check(place / "ca.crt")
    certificate = load_certificate(place / "server.crt")
    found = read_certificate(place / "server.crt")
    found.check(place / "server.crt")
    if load_private(place / "server.key").public_key() != certificate.public_key():
        raise KeysError(
            f"{place / 'server.key'} does not belong to server.crt.",
            f"Make both new with: fit federate keys {place} --renew",
        )
    try:
        certificate.verify_directly_issued_by(load_certificate(place / "ca.crt"))
    except (ValueError, TypeError, InvalidSignature):
        raise KeysError(
            f"{place / 'server.crt'} is not signed by {place / 'ca.crt'}.",
            f"Make a new one with: fit federate keys {place} --renew",
        ) from None
    return found


def check_client_keys(authority: str | Path, key: str | Path) -> None:
    """The two files that a client needs can be read, and the key is the client's own."""
    read_certificate(authority).check(Path(authority))
    path = Path(key)
    try:
        loaded = load_ssh_private_key(read_file(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        loaded = None
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise KeysError(
            f"{path} is not a private key of a client.",
            "It is the file node.key that 'fit federate keys --client NAME' made for this client.",
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise KeysError(
            f"Others on this machine can read the private key {path}.", f"Forbid it: chmod 600 {path}"
        )


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(
            f"A client cannot be called {name!r}.",
            "Use up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit.",
        )


def _client_exists(place: Path, name: str) -> bool:
    return (place / "nodes" / f"{name}.pub").exists() or (place / "clients" / name / "node.key").exists()
