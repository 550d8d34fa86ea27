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
MAX_SHOWN = 200  # characters of a client's value in a message for people


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
        self.rejected: dict[int, str] = {}  # until they disconnect, with the reason
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
            nodes = self.transport.connected_nodes()
            # A client that comes back is asked again: its owner may have changed what it was rejected for.
            self.rejected = {node: why for node, why in self.rejected.items() if node in nodes}
            new = nodes - self.clients.keys() - self.rejected.keys()
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
        names = {
            node: registered.get(node) or _claimed_name(about, node) for node, about in described.items()
        }
        self.on_names(names)
        for node, about in described.items():
            name = names[node]
            if reason := self._reason_to_reject(name, about):
                self.rejected[node] = f"{name}: {reason}"
                self.log(f"{name} is refused: {reason}")
            else:
                self._accept(node, name, about)

    def _accept(self, node: int, name: str, about: ConfigRecord) -> None:
        """Add a client to the roster; one that was restarted keeps its seat."""
        for before in [other for other, client in self.clients.items() if client.name == name]:
            del self.clients[before]
        counts, tests = about.get("counts"), about.get("tests")
        self.clients[node] = ClientInfo(
            name,
            messages.read_strings(about, "classes"),
            sum(n for n in counts if isinstance(n, int) and n > 0) if isinstance(counts, list) else 0,
            max(tests, 0) if isinstance(tests, int) else 0,
        )

    def _reason_to_reject(self, name: str, about: ConfigRecord) -> str:
        """Return why this client cannot take part; empty if it can. ``name`` is that of its key, if it has one."""
        if reason := messages.reason_of(about):
            return reason
        try:
            claimed = messages.read_text(about, "name")
        except FitError as error:
            return str(error)
        if claimed != name:
            return f"it calls itself {claimed}, and its key is that of {name}. A client must use the name that its key was made for."
        for what, required in self.requirements.items():
            if what == "layout" and self.plan.trained_by == "batches":
                continue  # it depends on the classes of all clients
            if (value := about.get(what)) != required:
                return f"its {what} is {str(value)[:MAX_SHOWN]}, the server's is {required}. Both need the same backbone and plan."
        nodes = self.transport.connected_nodes()
        if any(client.name == name and other in nodes for other, client in self.clients.items()):
            return "another client of this name is connected already. Each needs a different name."
        try:
            known = {client.name: client.classes for client in self.clients.values()}
            merge_class_names({**known, name: messages.read_strings(about, "classes")})
        except FitError as error:
            return str(error)
        return ""


def _claimed_name(about: ConfigRecord, node: int) -> str:
    """Return the name that a client gives itself, or its node's number if that is not usable."""
    try:
        return messages.read_text(about, "name")
    except FitError:
        return str(node)
