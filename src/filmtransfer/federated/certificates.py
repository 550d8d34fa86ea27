"""X.509 certificates of a federation: its certificate authority, and the server certificate that it signs.

A client trusts only the server certificates signed by the authority whose ``ca.crt`` it holds.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..errors import FitError, MissingExtraError, UsageError
from ..files import make_folder, reading, write_atomically

try:  # installed with flwr
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

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")  # the server's own processes connect by these
PRIVATE = 0o700  # the mode of folders that only their owner can read
AUTHORITY_DAYS = 3650
SERVER_DAYS = 365
CLOCK_SKEW = timedelta(minutes=5)  # certificates are valid from a little before they are signed


class KeysError(FitError):
    """Report a certificate or key that is missing, damaged, expired or refused."""

    exit_code = 4


@dataclass(frozen=True)
class Certificate:
    """The hosts and the validity period of a certificate."""

    hosts: tuple[str, ...]
    not_before: datetime
    not_after: datetime

    def check(self, path: Path, now: datetime | None = None) -> None:
        """Raise an error if the certificate is expired or not valid yet."""
        now = now or datetime.now(UTC)
        if now > self.not_after:
            raise KeysError(
                f"The certificate {path} expired on {self.not_after:%Y-%m-%d %H:%M} UTC.",
                "Create a new one with: fit federate keys FOLDER --renew",
            )
        if now < self.not_before:
            raise KeysError(
                f"The certificate {path} is valid only from {self.not_before:%Y-%m-%d %H:%M} UTC.",
                "Check the clock of this machine.",
            )


def make_authority(folder: str | Path, days: int = AUTHORITY_DAYS) -> None:
    """Create the federation's certificate authority: a key and a self-signed certificate."""
    path = make_folder(folder, parents=True, mode=PRIVATE)
    if (path / "ca.key").exists() or (path / "ca.crt").exists():
        raise KeysError(
            f"{path} already has an authority.",
            "Every client trusts it; start a new federation in another folder.",
        )
    now = datetime.now(UTC)
    # The number in the name distinguishes the authorities of two federations.
    subject = f"filmtransfer federation {x509.random_serial_number() % 10**8:08d}"
    constraints = x509.BasicConstraints(ca=True, path_length=0)
    extensions = [(constraints, True), (_key_usage(sign_certificates=True), True)]
    _issue(path / "ca", subject, (now - CLOCK_SKEW, now + timedelta(days=days)), extensions)


def make_server_certificate(
    folder: str | Path,
    hosts: Iterable[str] = (),
    *,
    days: int = SERVER_DAYS,
    not_before: datetime | None = None,
    not_after: datetime | None = None,
) -> Certificate:
    """Create the server's key and a certificate for these host names and addresses and for localhost."""
    path = Path(folder)
    if days < 1:
        raise UsageError(f"A certificate cannot be valid for {days} days.", "Give at least 1.")
    authority = load_certificate(path / "ca.crt")
    signer = load_private_key(path / "ca.key")
    now = datetime.now(UTC)
    names = tuple(dict.fromkeys((*hosts, *LOCAL_HOSTS)))
    start = not_before or now - CLOCK_SKEW
    end = not_after or min(now + timedelta(days=days), authority.not_valid_after_utc)
    extensions = [
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_key_usage(sign_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([alternative_name(host) for host in names]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False),
    ]
    _issue(path / "server", names[0][:64], (start, end), extensions, (authority.subject, signer))
    return Certificate(names, start, end)


def read_certificate(path: str | Path) -> Certificate:
    """Read the hosts and the validity period of a certificate file."""
    certificate = load_certificate(Path(path))
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        hosts = tuple(str(v) for t in (x509.DNSName, x509.IPAddress) for v in names.get_values_for_type(t))
    except x509.ExtensionNotFound:
        hosts = ()
    return Certificate(hosts, certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def _issue(
    path: Path,
    subject: str,
    period: tuple[datetime, datetime],
    extensions: Iterable[tuple[x509.ExtensionType, bool]],
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey] | None = None,
) -> None:
    """Write a new key and its certificate, signed by the issuer or by itself; extensions may be critical."""
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
    issuer_name, signer = issuer or (name, key)
    builder = (
        x509.CertificateBuilder(issuer_name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(period[0])
        .not_valid_after(period[1])
    )
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    for extension, critical in (*extensions, (identifier, False)):
        builder = builder.add_extension(extension, critical)
    certificate = builder.sign(signer, hashes.SHA384())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_atomically(path.with_suffix(".key"), private, private=True)
    write_atomically(path.with_suffix(".crt"), certificate.public_bytes(Encoding.PEM))


def _key_usage(sign_certificates: bool) -> x509.KeyUsage:
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
    """Return a host name or IP address as a subject alternative name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not re.fullmatch(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9-]+)*\.?", host):
        raise UsageError(
            f"{host!r} is not a host name.", "Give a host name or an address, without a port or https://."
        )
    return x509.DNSName(host)


def read_file(path: Path) -> bytes:
    """Read a key or certificate file."""
    with reading(path, "Create keys with: fit federate keys FOLDER", KeysError):
        return path.read_bytes()


def load_certificate(path: Path) -> x509.Certificate:
    """Load a certificate in PEM format."""
    try:
        return x509.load_pem_x509_certificate(read_file(path))
    except ValueError:
        raise KeysError(
            f"{path} is not a certificate.", "Create one with: fit federate keys FOLDER"
        ) from None


def load_private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Load a private elliptic-curve key in PEM format."""
    try:
        key = load_pem_private_key(read_file(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise KeysError(f"{path} is not a private key.", "Create one with: fit federate keys FOLDER")
    return key
