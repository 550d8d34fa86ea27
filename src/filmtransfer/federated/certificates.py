"""Certificates of a federation: an authority of its own, and what the server shows, which it signs.

A client that holds the authority's ``ca.crt`` knows whom it talks to, and trusts nobody else.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..errors import FitError, InputError, MissingExtraError, UsageError
from ..files import write_atomically

try:  # it comes with flwr
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_pem_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise MissingExtraError("fit federate", "federated") from None

ALWAYS = ("localhost", "127.0.0.1", "::1")  # the server's own processes come in by these
AUTHORITY_DAYS = 3650
SERVER_DAYS = 365
CLOCK = timedelta(minutes=5)  # clocks differ: what is signed now is valid from a little before


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


def make_authority(folder: str | Path, days: int = AUTHORITY_DAYS) -> None:
    """A key and a certificate that signs itself: the one thing that all of a federation trust."""
    place = make_folder(folder)
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
    write_atomically(place / "ca.key", _pem(key), private=True)
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
    authority = load_certificate(place / "ca.crt")
    signer = load_private(place / "ca.key")
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
        .add_extension(
            x509.SubjectAlternativeName([alternative_name(host) for host in names]), critical=False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA384())
    )
    write_atomically(place / "server.key", _pem(key), private=True)
    write_atomically(place / "server.crt", _certificate_pem(certificate))
    return Certificate(names, begin, end)


def read_certificate(path: str | Path) -> Certificate:
    certificate = load_certificate(Path(path))
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


def alternative_name(host: str) -> x509.GeneralName:
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


def make_folder(path: str | Path) -> Path:
    place = Path(path)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{place} cannot be made ({error.strerror}).", "Choose another folder.") from None
    return place


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeysError(
            f"{path} cannot be read ({error.strerror}).", "Make keys with: fit federate keys FOLDER"
        ) from None


def load_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(read_file(path))
    except ValueError:
        raise KeysError(f"{path} is not a certificate.", "Make one with: fit federate keys FOLDER") from None


def load_private(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(read_file(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KeysError(f"{path} is not a private key.", "Make one with: fit federate keys FOLDER")
    return key


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
