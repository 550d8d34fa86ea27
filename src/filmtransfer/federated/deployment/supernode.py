"""Flower's SuperNode, modified to exit when it cannot continue and to reconnect immediately after it was killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import httpx
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.common.constant import MAX_RETRY_DELAY
from flwr.proto.fleet_pb2 import DeactivateNodeRequest
from flwr.supercore import heartbeat
from flwr.supercore.retry import exponential, http_retry
from flwr.supernode import start_client_internal
from flwr.supernode.cli import flower_supernode
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from ...processes import terminate_with_parent
from .environment import NODE_VARIABLE, POLL_VARIABLE, CappedSleep, patch
from .objects import pull_within_budget

MAX_RETRY_POLLS = 4  # a server that is back is noticed after at most this many polling intervals


def main() -> None:
    """Run a SuperNode with the command-line arguments of Flower's own command."""
    terminate_with_parent()
    poll = float(os.environ[POLL_VARIABLE])
    limit = max(1.0, MAX_RETRY_POLLS * poll)
    patch(start_client_internal, time=CappedSleep(poll), pull_objects=pull_within_budget)
    patch(http_retry, MAX_RETRY_DELAY=min(MAX_RETRY_DELAY, limit))
    # A late heartbeat would make the server consider a connected client as offline.
    patch(heartbeat, exponential=lambda max_delay: exponential(max_delay=min(max_delay, limit)))
    deactivate(os.environ.get(NODE_VARIABLE, ""))
    flower_supernode()
    os._exit(1)  # it returns when the connection is lost permanently, but its threads keep the process alive


def deactivate(node_id: str) -> None:
    """Deactivate the node of this client's previous process.

    The server considers a killed client as online for a minute, and would refuse a second one with the same key.
    """
    if not node_id or "--insecure" in sys.argv:
        return
    key = load_ssh_private_key(Path(_argument("--auth-supernode-private-key")).read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    with FleetHttpClient.from_server_address(
        _argument("--superlink"),
        insecure=False,
        root_certificates=Path(_argument("--root-certificates")).read_bytes(),
        interceptors=[NodeAuthHttpInterceptor(key, key.public_key())],
    ) as fleet:
        try:
            fleet.DeactivateNode(DeactivateNodeRequest(node_id=int(node_id)))
        except httpx.HTTPError:  # the server cannot be reached or does not know the node
            pass


def _argument(option: str) -> str:
    return sys.argv[sys.argv.index(option) + 1]


if __name__ == "__main__":
    main()
