"""Flower's SuperNode, which ends when it cannot go on, and comes back at once after it was killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore import heartbeat
from flwr.supercore.retry import exponential, http_retry
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from ...processes import terminate_with_parent
from .environment import NODE_ID, POLL, CappedSleep

PAUSES = 4  # a server that was gone is found again after at most so many of the usual pauses


def main() -> None:
    terminate_with_parent()
    poll = float(os.environ[POLL])
    loop: Any = start_client_internal
    loop.time = CappedSleep(poll)
    longest = max(1.0, PAUSES * poll)
    retry: Any = http_retry
    retry.MAX_RETRY_DELAY = min(retry.MAX_RETRY_DELAY, longest)
    beat: Any = heartbeat  # a sign of life that comes too late makes a client that is there count as gone
    beat.exponential = lambda max_delay: exponential(max_delay=min(max_delay, longest))
    sign_off(os.environ.get(NODE_ID, ""))
    flower_supernode()
    os._exit(1)  # it returns when the connection is lost for good, and would sit there with its own port open


def sign_off(node_id: str) -> None:
    """Tell the server that this client's last life is over.

    A client that was killed counts as present for a minute, and nobody can come in twice: it would be refused.
    """
    if not node_id or "--insecure" in sys.argv:
        return
    key = load_ssh_private_key(Path(_word("--auth-supernode-private-key")).read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    with FleetHttpClient.from_server_address(
        _word("--superlink"),
        insecure=False,
        root_certificates=Path(_word("--root-certificates")).read_bytes(),
        interceptors=[NodeAuthHttpInterceptor(key, key.public_key())],
    ) as fleet:
        try:
            fleet.DeactivateNode(DeactivateNodeRequest(node_id=int(node_id)))
        except httpx.HTTPError:  # it is not there, or knows nothing of us: all the better
            pass


def _word(option: str) -> str:
    return sys.argv[sys.argv.index(option) + 1]


if __name__ == "__main__":
    main()
