"""A client of SuperLink's control API: register nodes, start a run and follow its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from flwr.common.constant import Status, SubStatus
from flwr.common.serde import fab_to_proto, user_config_to_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    ListRunsRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.node_pb2 import NodeInfo
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.protobuf.client import ProtobufCall, ProtobufRequestContext

from .environment import SECRET_HEADER
from .fab import build_fab, fab_digest


@dataclass(frozen=True)
class RunState:
    """Whether a run is finished, and how."""

    finished: bool
    completed: bool
    details: str


class ControlClient:
    """A connection to the SuperLink of this machine."""

    def __init__(self, address: str, secret: bytes, authority: Path | None) -> None:
        self.client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=authority is None,
            root_certificates=None if authority is None else authority.read_bytes(),
            interceptors=[
                RuntimeVersionHttpInterceptor(component_name="filmtransfer"),
                _SecretInterceptor(secret),
            ],
        )

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def ready(self) -> bool:
        """Return whether the SuperLink answers."""
        try:
            self.client.ListNodes(ListNodesRequest())
        except httpx.TransportError:
            return False
        return True

    def nodes(self) -> list[NodeInfo]:
        """Return the registered clients (without keys: all that have connected)."""
        return [node for node in self.client.ListNodes(ListNodesRequest()).nodes_info if node.public_key]

    def register(self, keys: Mapping[str, bytes]) -> list[str]:
        """Register new clients, and unregister those whose keys were deleted.

        Returns the clients that could not be registered: Flower never accepts an unregistered key again.
        """
        known = {node.public_key: node for node in self.nodes() if not node.unregistered_at}
        for key, node in known.items():
            if key not in keys.values():
                self.client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
        refused = []
        for name, key in keys.items():
            if key not in known:
                try:
                    self.client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
                except httpx.HTTPStatusError as error:
                    if error.response.status_code != httpx.codes.PRECONDITION_FAILED:
                        raise
                    refused.append(name)
        return refused

    def stop_all(self) -> None:
        """Stop the runs of a previous server process."""
        for run_id, run in self.client.ListRuns(ListRunsRequest()).run_dict.items():
            if run.status.status != Status.FINISHED:
                self.client.StopRun(StopRunRequest(run_id=run_id))

    def start(self, config: Mapping[str, str]) -> int:
        """Start a run of this package's app and return its id."""
        fab = Fab(fab_digest(), build_fab(), {})
        started = self.client.StartRun(
            StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(dict(config)))
        )
        return int(started.run_id)

    def state(self, run_id: int) -> RunState:
        """Return the state of a run."""
        run = self.client.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id]
        finished = run.status.status == Status.FINISHED
        return RunState(
            finished, finished and run.status.sub_status == SubStatus.COMPLETED, run.status.details
        )


class _SecretInterceptor:
    """Adds the secret that SuperLink's access control requires to every request."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret.hex()

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        context.request.headers[SECRET_HEADER] = self.secret
        return call_next(context)
