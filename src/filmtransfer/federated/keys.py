"""Keys of a federation: an authority of its own, a certificate for the server, a key pair for every client.

The authority signs the server's certificate, so a client that holds ``ca.crt`` knows whom it talks to. A client
signs each of its requests with its own key, and the server lets in those whose public half lies in ``nodes/``.

    ca.crt ca.key                      the authority; ca.key is needed only to make certificates
    server.crt server.key              what the server shows
    nodes/anna.pub                     who may take part
    clients/anna/ca.crt, node.key      what anna gets, and nobody else
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..errors import FitError, InputError, MissingExtraError, UsageError
from ..files import write_atomically

try:  # it comes with flwr
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
        load_ssh_private_key,
        load_ssh_public_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise MissingExtraError("fit federate", "federated") from None

ALWAYS = ("localhost", "127.0.0.1", "::1")  # the server's own processes come in by these
AUTHORITY_DAYS = 3650
SERVER_DAYS = 365
CLOCK = timedelta(minutes=5)  # clocks differ: what is signed now is valid from a little before
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class KeysError(FitError):
    """A certificate or key is missing, damaged, out of date or refused."""

    exit_code = 4


@dataclass(frozen=True)
class Certificate:
    """What people want to know of a certificate."""

    hosts: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    def check(self, path: Path, now: datetime | None = None) -> None:
        """Refuse a certificate that no client would accept today."""
        now = now or datetime.now(UTC)
        if now > self.not_after:
            raise KeysError(
                f"The certificate {path} expired on {self.not_after:%Y-%m-%d %H:%M} UTC.",
                "Make a new one with: fit federate keys FOLDER --renew",
            )
        if now < self.not_before:
            raise KeysError(
                f"The certificate {path} is valid only from {self.not_before:%Y-%m-%d %H:%M} UTC.",
                "Is the clock of this machine right?",
            )


@dataclass(frozen=True)
class Made:
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
) -> Made:
    """Make what is missing; run again it adds clients, and with ``renew`` a new server certificate.

    The authority is made once and never replaced: every client would have to get the new one.
    """
    place = Path(folder)
    for name in clients:
        check_name(name)
    for host in hosts:
        _alternative(host)
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
    return Made(new_authority, new_server, tuple(clients))


def make_authority(folder: str | Path, days: int = AUTHORITY_DAYS) -> None:
    """A key and a certificate that signs itself: the one thing that all of a federation trust."""
    place = _folder(folder)
    if (place / "ca.key").exists() or (place / "ca.crt").exists():
        raise KeysError(
            f"{place} already has an authority.",
            "Every client trusts it; start a new federation in another folder.",
        )
    key = ec.generate_private_key(ec.SECP384R1())
    now = datetime.now(UTC)
    # The number in the name keeps two federations' authorities apart.
    number = x509.random_serial_number() % 10**8
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"filmtransfer federation {number:08d}")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(sign_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA384())
    )
    _write_private(place / "ca.key", _pem(key))
    write_atomically(place / "ca.crt", _certificate_pem(certificate))


def make_server_certificate(
    folder: str | Path,
    hosts: Iterable[str] = (),
    *,
    days: int = SERVER_DAYS,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
) -> Certificate:
    """A new key and certificate for the server, for these names and addresses and this machine's own."""
    place = Path(folder)
    if days < 1:
        raise UsageError(f"A certificate cannot be valid for {days} days.", "Give at least 1.")
    authority = _load_certificate(place / "ca.crt")
    signer = _load_private(place / "ca.key")
    key = ec.generate_private_key(ec.SECP384R1())
    now = datetime.now(UTC)
    names = tuple(dict.fromkeys((*hosts, *ALWAYS)))
    begin = not_before or now - CLOCK
    end = not_after or min(now + timedelta(days=days), authority.not_valid_after_utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])]))
        .issuer_name(authority.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(host) for host in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA384())
    )
    _write_private(place / "server.key", _pem(key))
    write_atomically(place / "server.crt", _certificate_pem(certificate))
    return Certificate(names, begin, end)


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
    parcel = _folder(_folder(place / "clients") / name)
    _folder(place / "nodes")
    # The format that flwr reads: OpenSSH, without a password.
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    write_atomically(parcel / "ca.crt", _read(place / "ca.crt"))
    _write_private(parcel / "node.key", private)
    write_atomically(place / "nodes" / f"{name}.pub", public + f" {name}\n".encode())
    return parcel


def public_keys(folder: str | Path) -> dict[str, bytes]:
    """Who may take part: name → public key, as flwr's server wants it."""
    found: dict[str, bytes] = {}
    for file in sorted((Path(folder) / "nodes").glob("*.pub")):
        check_name(file.stem)
        try:
            key = load_ssh_public_key(_read(file))
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


def read_certificate(path: str | Path) -> Certificate:
    certificate = _load_certificate(Path(path))
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = tuple(
            str(value)
            for value in (
                *names.get_values_for_type(x509.DNSName),
                *names.get_values_for_type(x509.IPAddress),
            )
        )
    except x509.ExtensionNotFound:
        hosts = ()
    return Certificate(hosts, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


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
    certificate = _load_certificate(place / "server.crt")
    found = read_certificate(place / "server.crt")
    found.check(place / "server.crt")
    if _load_private(place / "server.key").public_key() != certificate.public_key():
        raise KeysError(
            f"{place / 'server.key'} does not belong to server.crt.",
            f"Make both new with: fit federate keys {place} --renew",
        )
    try:
        certificate.verify_directly_issued_by(_load_certificate(place / "ca.crt"))
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
        loaded = load_ssh_private_key(_read(path), password=None)
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


def _usage(sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not sign_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*\.?", host):
        raise UsageError(
            f"{host!r} is not the name of a machine.",
            "Give a name or an address, without a port or https://.",
        )
    return x509.DNSName(host)


def _client_exists(place: Path, name: str) -> bool:
    return (place / "nodes" / f"{name}.pub").exists() or (place / "clients" / name / "node.key").exists()


def _folder(path: str | Path) -> Path:
    place = Path(path)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{place} cannot be made ({error.strerror}).", "Choose another folder.") from None
    return place


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeysError(
            f"{path} cannot be read ({error.strerror}).", "Make keys with: fit federate keys FOLDER"
        ) from None


def _load_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError:
        raise KeysError(f"{path} is not a certificate.", "Make one with: fit federate keys FOLDER") from None


def _load_private(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KeysError(f"{path} is not a private key.", "Make one with: fit federate keys FOLDER")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _write_private(path: Path, content: bytes) -> None:
    """Nobody else can read it at any moment: made with mode 0600, then renamed into place."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise InputError(f"{path} cannot be written ({error.strerror}).", "Choose another folder.") from None
