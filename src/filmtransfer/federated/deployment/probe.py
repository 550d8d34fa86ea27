"""Is there a server, and is it the right one? Asked before SuperNode is started, which would try for ever."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

from ...errors import UsageError
from ..certificates import KeysError

SECONDS = 5.0
EXPIRED, NOT_YET, WRONG_NAME, WRONG_ADDRESS = 10, 9, 62, 64  # OpenSSL's numbers


def parse_address(text: str) -> tuple[str, int]:
    """HOST:PORT, where an IPv6 address has brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or "/" in host:
        raise UsageError(
            f"{text!r} is not the address of a server.", "Give it as HOST:PORT, as in anna.example:9092."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def reach(host: str, port: int, authority: Path | None) -> str:
    """Empty if the server is there and shows a certificate we trust; why not, if waiting may help.

    Raises when waiting cannot help: the certificate is not one that this client may trust.
    """
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as plain:
            if authority is None:
                return ""
            context = ssl.create_default_context(cafile=str(authority))
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            with context.wrap_socket(plain, server_hostname=host):
                return ""
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(error, host, authority) from None
    except ssl.SSLEOFError:
        return "it closed the connection"
    except ssl.SSLError as error:
        raise KeysError(
            f"What answers at {host}:{port} does not speak TLS ({error.reason}).",
            "Is it the server of the federation? One that runs with --insecure wants clients that do, too.",
        ) from None
    except OSError as error:
        return str(error.strerror or error)


def _untrusted(error: ssl.SSLCertVerificationError, host: str, authority: Path | None) -> KeysError:
    code = error.verify_code
    if code == EXPIRED:
        return KeysError(
            f"The certificate of {host} has expired.",
            "The server's owner makes a new one: fit federate keys FOLDER --renew",
        )
    if code == NOT_YET:
        return KeysError(
            f"The certificate of {host} is not valid yet.", "Is the clock of this machine right?"
        )
    if code in (WRONG_NAME, WRONG_ADDRESS):
        return KeysError(
            f"The certificate that {host} shows is for another name.",
            f"Use the name it was made for, or have one made: fit federate keys FOLDER --host {host} --renew",
        )
    return KeysError(
        f"The certificate of {host} is not signed by the authority in {authority} ({error.verify_message}).",
        "Either this is not the server of your federation, or ca.crt is of another one. Ask its owner.",
    )
