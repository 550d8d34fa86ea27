"""Keys of a federation: a certificate authority, a server certificate and a key pair for every client.

The authority signs the server's certificate, so a client that holds ``ca.crt`` can authenticate the server. A client
signs each of its requests with its own key, and the server accepts the clients whose public keys are in ``nodes/``.

    ca.crt ca.key                      the authority; ca.key is needed only to sign certificates
    server.crt server.key              the server's certificate and private key
    nodes/anna.pub                     the public keys of the clients that may take part
    clients/anna/ca.crt, node.key      the files to give to anna, and to nobody else
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import MissingExtraError, UsageError
from ..files import make_folder, write_atomically

try:  # installed with flwr
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
    PRIVATE,
    SERVER_DAYS,
    Certificate,
    KeysError,
    alternative_name,
    load_certificate,
    load_private_key,
    make_authority,
    make_server_certificate,
    read_certificate,
    read_file,
)

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class CreatedKeys:
    """What one call of :func:`make_keys` created."""

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
    """Create the keys that are missing; ``renew`` replaces the server's certificate.

    The authority is created once and never replaced: every client would need the new one.
    """
    path = Path(folder)
    _check_clients(path, clients, force)
    for host in hosts:
        alternative_name(host)
    new_authority = not (path / "ca.crt").exists()
    if new_authority:
        make_authority(path)
    new_server = not (path / "server.crt").exists() or renew
    hosts_before = () if not (path / "server.crt").exists() else read_certificate(path / "server.crt").hosts
    missing = [host for host in hosts if host not in hosts_before]
    if hosts_before and missing and not renew:
        raise KeysError(
            f"The certificate of the server is not for {', '.join(missing)}.",
            "Add --renew to create one that is; the clients need nothing new.",
        )
    if new_server:
        make_server_certificate(path, (*hosts_before, *hosts), days=SERVER_DAYS if days is None else days)
    for name in clients:
        make_client_key(path, name, force=force)
    return CreatedKeys(new_authority, new_server, tuple(clients))


def make_client_key(folder: str | Path, name: str, *, force: bool = False) -> Path:
    """Create a key pair for a client and return the folder to give to it."""
    path = Path(folder)
    _check_clients(path, [name], force)
    key = ec.generate_private_key(ec.SECP384R1())
    client_folder = make_folder(make_folder(path / "clients", mode=PRIVATE) / name, mode=PRIVATE)
    make_folder(path / "nodes", mode=PRIVATE)
    # flwr reads OpenSSH keys without a password.
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_atomically(client_folder / "ca.crt", read_file(path / "ca.crt"))
    write_atomically(client_folder / "node.key", private, private=True)
    write_atomically(path / "nodes" / f"{name}.pub", public + f" {name}\n".encode())
    return client_folder


def public_keys(folder: str | Path) -> dict[str, bytes]:
    """Return the public key of each client that may take part, by name, in the format of flwr's server."""
    keys: dict[str, bytes] = {}
    for file in sorted((Path(folder) / "nodes").glob("*.pub")):
        check_name(file.stem)
        try:
            key = load_ssh_public_key(read_file(file))
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, ec.EllipticCurvePublicKey):
            raise KeysError(
                f"{file} is not a public key on a NIST curve.",
                "Create it with: fit federate keys FOLDER --client NAME",
            )
        keys[file.stem] = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    if len(set(keys.values())) < len(keys):
        raise KeysError(
            f"{Path(folder) / 'nodes'} holds the same key under two names.", "Give every client its own key."
        )
    return keys


def check_server_keys(folder: str | Path) -> Certificate:
    """Check that the server's keys and certificates exist, match and are valid now."""
    path = Path(folder)
    if not path.is_dir():
        raise KeysError(
            f"There is no folder {path} with keys.",
            f"Create them with: fit federate keys {path} --client NAME",
        )
    for file in ("ca.crt", "server.crt", "server.key"):
        if not (path / file).is_file():
            raise KeysError(f"{path} has no {file}.", f"Create it with: fit federate keys {path}")
    read_certificate(path / "ca.crt").check(path / "ca.crt")
    loaded = load_certificate(path / "server.crt")
    certificate = read_certificate(path / "server.crt")
    certificate.check(path / "server.crt")
    if load_private_key(path / "server.key").public_key() != loaded.public_key():
        raise KeysError(
            f"{path / 'server.key'} does not belong to server.crt.",
            f"Replace both with: fit federate keys {path} --renew",
        )
    try:
        loaded.verify_directly_issued_by(load_certificate(path / "ca.crt"))
    except (ValueError, TypeError, InvalidSignature):
        raise KeysError(
            f"{path / 'server.crt'} is not signed by {path / 'ca.crt'}.",
            f"Create a new one with: fit federate keys {path} --renew",
        ) from None
    return certificate


def check_client_keys(authority: str | Path, key: str | Path) -> None:
    """Check that a client's two files can be read and that its private key is private."""
    path = Path(key)
    for file in (Path(authority), path):
        if not file.is_file():
            raise KeysError(
                f"There is no file {file}.",
                "A client needs the folder that the server's owner sent, with ca.crt and node.key.",
            )
    read_certificate(authority).check(Path(authority))
    try:
        loaded = load_ssh_private_key(read_file(path), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        loaded = None
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise KeysError(
            f"{path} is not a private key of a client.",
            "Use the file node.key that 'fit federate keys --client NAME' created for this client.",
        )
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise KeysError(
            f"Other users of this machine can read the private key {path}.", f"Run: chmod 600 {path}"
        )


def check_name(name: str) -> None:
    """Raise an error if a client's name is not a plain file name."""
    if not NAME.fullmatch(name):
        raise UsageError(
            f"A client cannot be called {name!r}.",
            "Use up to 64 letters, digits, dots, dashes and underscores, beginning with a letter or digit.",
        )


def _check_clients(path: Path, names: Sequence[str], force: bool) -> None:
    """Raise an error if a name is not possible or, unless ``force`` is set, has a key already."""
    for name in names:
        check_name(name)
        files = (path / "nodes" / f"{name}.pub", path / "clients" / name / "node.key")
        if not force and any(file.exists() for file in files):
            raise KeysError(
                f"{name} already has a key in {path}.",
                "Omit it, or replace its key with --force: the server then refuses the old one.",
            )
