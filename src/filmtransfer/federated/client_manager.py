"""The clients of a federation: each describes itself once, and incompatible clients are rejected.

All clients must have the same backbone, pixel specification and parameter layout, consistent class names, and different
names.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from flwr.app import ConfigRecord

from ..errors import FitError
from ..formatting import capitalize, count, list_names
from ..model import AdaptedModel
from . import messages
from .parameters import parameter_layout
from .partition import merge_class_names
from .plan import Plan
from .records import Observer
from .transport import Transport

POLL_SECONDS = 0.5  # between two checks for new clients
DESCRIBE_SECONDS = 300.0  # in which a client must read its images and describe itself


class FederationError(FitError):
    """Report that the federation cannot continue; its checkpoint is on disk."""


@dataclass(frozen=True)
class ClientInfo:
    """What a client reported about itself."""

    name: str
    classes: list[str]
    num_examples: int
    num_test_examples: int


class ClientManager:
    """The accepted and the rejected clients by node."""

    def __init__(
        self,
        transport: Transport,
        plan: Plan,
        model: AdaptedModel,
        observer: Observer,
        max_wait: float,
    ) -> None:
        self.transport, self.plan, self.max_wait = transport, plan, max_wait
        self.log, self.on_status, self.on_names = observer.log, observer.on_status, observer.on_names
        self.clients: dict[int, ClientInfo] = {}
        self.rejected: dict[int, str] = {}  # permanently, with the reason
        self.requirements = {
            "digest": model.backbone.digest,
            "pixels": json.dumps(asdict(model.pixels), sort_keys=True),
            "layout": parameter_layout(model).digest,
        }

    def __len__(self) -> int:
        return len(self.clients)

    def connected(self) -> dict[str, int]:
        """Return the nodes of the accepted clients that are connected, by name."""
        nodes = self.transport.connected_nodes()
        return {client.name: node for node, client in sorted(self.clients.items()) if node in nodes}

    def classes(self) -> list[str]:
        """Return the classes of all connected clients."""
        return merge_class_names(
            {name: self.clients[node].classes for name, node in self.connected().items()}
        )

    def describe(self) -> str:
        """Return who is connected, with how many images of how many classes."""
        connected = self.connected()
        images = sum(self.clients[node].num_examples for node in connected.values())
        return (
            f"{capitalize(count(len(connected), 'client'))} with {count(images, 'image')} of "
            f"{count(len(self.classes()), 'class', 'classes')}: {list_names(connected)}."
        )

    def wait_for_clients(self) -> None:
        """Register new clients; wait until there are enough for a round."""
        deadline, reported = time.monotonic() + self.max_wait, -1
        while True:
            new = self.transport.connected_nodes() - self.clients.keys() - self.rejected.keys()
            if new:
                self.on_status(f"Registering {count(len(new), 'client')}")
                self.register(sorted(new))
            available = len(self.connected())
            if available >= self.plan.min_clients:
                return
            if time.monotonic() > deadline:
                rejected = "".join(f" {reason}" for reason in sorted(set(self.rejected.values())))
                raise FederationError(
                    f"{capitalize(count(available, 'client'))} {'is' if available == 1 else 'are'} connected, "
                    f"and a round needs {self.plan.min_clients}.{rejected}",
                    "Start more clients, or lower min_clients. The checkpoint is kept.",
                )
            if available != reported:
                self.log(
                    f"Waiting for clients: {available} connected, at least {self.plan.min_clients} needed."
                )
                reported = available
                self.on_status("Waiting for clients")
            time.sleep(POLL_SECONDS)

    def register(self, nodes: list[int]) -> None:
        """Ask new clients to describe themselves; those that do not answer are asked again before the next round."""
        replies, _ = self.transport.exchange(
            messages.DESCRIBE,
            dict.fromkeys(nodes, messages.make_request(self.plan)),
            "describing",
            min(self.plan.timeout, DESCRIBE_SECONDS),
        )
        registered = self.transport.registered_names()
        described = {node: messages.read_about(reply) for node, reply in sorted(replies.items())}
        names = {node: str(about.get("name", node)) for node, about in described.items()}
        self.on_names(names)
        for node, about in described.items():
            name = names[node]
            reason = self._reason_to_reject(name, about)
            if (owner := registered.get(node, name)) != name:
                reason = f"its key is that of {owner}. A client must use the name that its key was made for."
            if reason:
                self.rejected[node] = f"{name}: {reason}"
                self.log(f"{name} is refused: {reason}")
            else:
                counts, tests = about.get("counts"), about["tests"]
                self.clients[node] = ClientInfo(
                    name,
                    messages.read_strings(about, "classes"),
                    sum(n for n in counts if isinstance(n, int)) if isinstance(counts, list) else 0,
                    tests if isinstance(tests, int) else 0,
                )

    def _reason_to_reject(self, name: str, about: ConfigRecord) -> str:
        """Return why this client cannot take part; empty if it can."""
        if "refused" in about:
            return str(about["refused"])
        for what, required in self.requirements.items():
            if what == "layout" and self.plan.trained_by == "batches":
                continue  # it depends on the classes of all clients
            if (value := about.get(what)) != required:
                return f"its {what} is {value!s}, the server's is {required}. Both need the same backbone and plan."
        nodes = self.transport.connected_nodes()
        for node, client in list(self.clients.items()):
            if client.name == name:
                if node in nodes:
                    return "another client of this name is connected already. Each needs a different name."
                del self.clients[node]  # the client was restarted
        try:
            known = {client.name: client.classes for client in self.clients.values()}
            merge_class_names({**known, name: messages.read_strings(about, "classes")})
        except FitError as error:
            return str(error)
        return ""
