"""What the server tells its SuperLink: who may take part, what to run, and how it goes. Flower's own control API."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

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
from .fab import bundle


@dataclass(frozen=True)
class RunState:
    """Whether a run is over, and how it ended."""

    over: bool
    good: bool
    details: str


class ControlClient:
    """A line to the SuperLink of this machine."""

    def __init__(self, address: str, secret: bytes, authority: Path | None) -> None:
        self.client = ControlHttpClient.from_server_address(
            server_address=address,
            insecure=authority is None,
            root_certificates=None if authority is None else authority.read_bytes(),
            interceptors=[RuntimeVersionHttpInterceptor(component_name="filmtransfer"), _ShowSecret(secret)],
        )

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()

    def ready(self) -> bool:
        """Whether the SuperLink answers."""
        try:
            self.client.ListNodes(ListNodesRequest())
        except httpx.TransportError:
            return False
        return True

    def nodes(self) -> list[NodeInfo]:
        """The clients that are registered (in an open federation: that have come)."""
        return [node for node in self.client.ListNodes(ListNodesRequest()).nodes_info if node.public_key]

    def admit(self, keys: Mapping[str, bytes]) -> list[str]:
        """Exactly these may take part: register who is new, strike out whose key is gone.

        Returns those that cannot come in: Flower never takes a key again that was struck out once.
        """
        known = {node.public_key: node for node in self.nodes() if not node.unregistered_at}
        for key, node in known.items():
            if key not in keys.values():
                self.client.UnregisterNode(UnregisterNodeRequest(node_id=node.node_id))
        spent = []
        for name, key in keys.items():
            if key not in known:
                try:
                    self.client.RegisterNode(RegisterNodeRequest(public_key=key, name=name))
                except httpx.HTTPStatusError as error:
                    if error.response.status_code != httpx.codes.PRECONDITION_FAILED:
                        raise
                    spent.append(name)
        return spent

    def stop_all(self) -> None:
        """Runs that a killed server left behind: nobody shall work for them any more."""
        for run_id, run in self.client.ListRuns(ListRunsRequest()).run_dict.items():
            if run.status.status != Status.FINISHED:
                self.client.StopRun(StopRunRequest(run_id=run_id))

    def start(self, config: Mapping[str, str]) -> int:
        """A new run of this package's app."""
        packed = bundle()
        fab = Fab(hashlib.sha256(packed).hexdigest(), packed, {})
        started = self.client.StartRun(
            StartRunRequest(fab=fab_to_proto(fab), override_config=user_config_to_proto(dict(config)))
        )
        return int(started.run_id)

    def state(self, run_id: int) -> RunState:
        run = self.client.ListRuns(ListRunsRequest(run_id=run_id)).run_dict[run_id]
        over = run.status.status == Status.FINISHED
        return RunState(over, over and run.status.sub_status == SubStatus.COMPLETED, run.status.details)


class _ShowSecret:
    """The guard before the SuperLink wants to see it."""

    def __init__(self, secret: bytes) -> None:
        self.word = secret.hex()

    def intercept(self, context: ProtobufRequestContext, call_next: ProtobufCall) -> httpx.Response:
        context.request.headers[SECRET_HEADER] = self.word
        return call_next(context)
