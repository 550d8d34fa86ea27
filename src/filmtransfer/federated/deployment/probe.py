"""Check that the server can be reached and has a trusted certificate, before SuperNode is started."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from ...errors import UsageError
from ..certificates import KeysError

TIMEOUT_SECONDS = 5.0
EXPIRED, NOT_YET, WRONG_NAME, WRONG_ADDRESS = 10, 9, 62, 64  # OpenSSL's error codes


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of HOST:PORT, where an IPv6 address is in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or "/" in host:
        raise UsageError(
            f"{text!r} is not the address of a server.", "Give it as HOST:PORT, as in anna.example:9092."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def probe_server(host: str, port: int, authority: Path | None) -> str:
    """Return why the server cannot be reached; empty if it can and has a trusted certificate.

    Raises an error if waiting cannot help: its certificate is not trusted.
    """
    try:
        with socket.create_connection((host, port), timeout=TIMEOUT_SECONDS) as connection:
            if authority is None:
                return ""
            context = ssl.create_default_context(cafile=str(authority))
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            with context.wrap_socket(connection, server_hostname=host):
                return ""
    except ssl.SSLCertVerificationError as error:
        raise _certificate_error(error, host, authority) from None
    except ssl.SSLEOFError:
        return "it closed the connection"
    except ssl.SSLError as error:
        raise KeysError(
            f"The server at {host}:{port} does not use TLS ({error.reason}).",
            "Check the address. A server that runs with --insecure needs clients that do so, too.",
        ) from None
    except OSError as error:
        return str(error.strerror or error)


def _certificate_error(error: ssl.SSLCertVerificationError, host: str, authority: Path | None) -> KeysError:
    code = error.verify_code
    if code == EXPIRED:
        return KeysError(
            f"The certificate of {host} has expired.",
            "The server's owner creates a new one: fit federate keys FOLDER --renew",
        )
    if code == NOT_YET:
        return KeysError(f"The certificate of {host} is not valid yet.", "Check the clock of this machine.")
    if code in (WRONG_NAME, WRONG_ADDRESS):
        return KeysError(
            f"The certificate of {host} is for another name.",
            f"Use the name it was created for, or create one: fit federate keys FOLDER --host {host} --renew",
        )
    return KeysError(
        f"The certificate of {host} is not signed by the authority in {authority} ({error.verify_message}).",
        "Either this is not the server of your federation, or ca.crt is that of another one. Ask its owner.",
    )
