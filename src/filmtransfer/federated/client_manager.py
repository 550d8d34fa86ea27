"""The clients of a federation: each describes itself once, and incompatible clients are rejected.

All clients must have the same backbone, pixel specification and parameter layout, consistent class names, and different
names.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from flwr.app import ConfigRecord

from ..budgets import MAX_MESSAGE_BYTES, MAX_NAMES, MAX_SETTINGS_BYTES
from ..errors import FitError, InputError
from ..formatting import capitalize, count, file_size, list_names
from ..heads import Statistics
from ..model import AdaptedModel
from . import messages
from .fixed_point import total_size
from .parameters import parameter_layout
from .partition import merge_class_names
from .plan import Plan
from .records import Observer
from .statistics import array_shapes, check_of_client, from_arrays
from .transport import Transport

POLL_SECONDS = 0.5  # between two checks for new clients
DESCRIBE_SECONDS = 300.0  # in which a client must read its images and describe itself
NAME_OVERHEAD = 4  # bytes of a name in a message beside its own
MAX_SHOWN = 200  # characters of a client's value in a message for people


class FederationError(FitError):
    """Report that the federation cannot continue; its checkpoint is on disk."""


@dataclass(frozen=True)
class ClientInfo:
    """What a client reported about itself."""

    name: str
    counts: dict[str, int]  # of images, by class
    num_test_examples: int

    @property
    def classes(self) -> list[str]:
        """The names of its classes."""
        return list(self.counts)

    @property
    def num_examples(self) -> int:
        """The number of its images."""
        return sum(self.counts.values())


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
        self.key_names: dict[
            int, str
        ] = {}  # for which the keys of nodes were registered, also of those that have left
        self.model = model
        self.requirements = {
            "digest": model.backbone.digest,
            "pixels": json.dumps(asdict(model.pixels), sort_keys=True),
            "layout": parameter_layout(model).digest,
        }

    def __len__(self) -> int:
        return len(self.clients)

    def connected(self) -> dict[str, int]:
        """Return the nodes of the accepted clients that are connected, by name."""
        nodes = self._connected_nodes()
        return {client.name: node for node, client in sorted(self.clients.items()) if node in nodes}

    def _connected_nodes(self) -> set[int]:
        """Return the connected nodes; a node's name is known before anything is asked of it, and stays known."""
        nodes = self.transport.connected_nodes()
        self.key_names |= {node: name for node, name in nodes.items() if name}
        return set(nodes)

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
            nodes = self._connected_nodes()
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
        described = {node: messages.read_about(reply) for node, reply in sorted(replies.items())}
        # Where clients have keys, what one says about itself is not its name, and without a name it is asked again.
        names = (
            {node: self.key_names[node] for node in described if node in self.key_names}
            if self.key_names
            else {node: _claimed_name(about, node) for node, about in described.items()}
        )
        self.on_names(names)
        for node, name in names.items():
            try:
                client = self._read_client(name, described[node])
            except FitError as error:
                self.rejected[node] = f"{name}: {error}"
                self.log(f"{name} is refused: {error}")
            else:
                self._accept(node, client)

    def _accept(self, node: int, client: ClientInfo) -> None:
        """Add a client to the roster; one that was restarted keeps its seat."""
        for before in [other for other, known in self.clients.items() if known.name == client.name]:
            del self.clients[before]
        self.clients[node] = client

    def _read_client(self, name: str, about: ConfigRecord) -> ClientInfo:
        """Return what a client reports; raise an error if it cannot take part. ``name`` is that of its key, if any."""
        if reason := messages.reason_of(about):
            raise InputError(reason)
        claimed = messages.read_text(about, "name")
        if claimed != name:
            raise InputError(
                f"it calls itself {claimed}, and its key is that of {name}. A client must use the name that its key was made for."
            )
        for what, required in self.requirements.items():
            if what == "layout" and self.plan.trained_by == "batches":
                continue  # it depends on the classes of all clients
            if (value := about.get(what)) != required:
                raise InputError(
                    f"its {what} is {str(value)[:MAX_SHOWN]}, the server's is {required}. Both need the same backbone and plan."
                )
        if name in self.connected():
            raise InputError("another client of this name is connected already. Each needs a different name.")
        # A head that is trained by batches, in simulations only, has all classes on every client.
        least = 0 if self.plan.trained_by == "batches" else 1
        client = ClientInfo(name, messages.read_counts(about, least), messages.read_number_of_tests(about))
        known = {other.name: other.classes for other in self.clients.values()}
        self._check_size(merge_class_names({**known, name: client.classes}))
        return client

    def read_statistics(
        self, arrays: Mapping[str, np.ndarray], classes: list[str], node: int | None = None
    ) -> Statistics:
        """Return the statistics of a client, or a sum over clients (None); raise an error if they are not possible."""
        features, scatter = self.model.backbone.features, self.plan.scatter
        statistics = from_arrays(arrays, len(classes), features, scatter)
        if node is not None:
            check_of_client(statistics, classes, self.clients[node].counts)
        return statistics

    def _check_size(self, classes: list[str]) -> None:
        """Raise an error for classes of which the sums, or the names, are too large for one message."""
        shapes = array_shapes(len(classes), self.model.backbone.features, self.plan.scatter)
        arrays = 8 * (total_size(shapes) + parameter_layout(self.model).length)
        names = sum(len(name.encode()) + NAME_OVERHEAD for name in classes)
        most = MAX_MESSAGE_BYTES - MAX_SETTINGS_BYTES
        if arrays > most or names > MAX_SETTINGS_BYTES // 2 or len(classes) > MAX_NAMES:
            raise InputError(
                f"with it there would be {len(classes)} classes, of which the sums have {file_size(arrays)} and the names "
                f"{file_size(names)}: too much for a message."
            )


def _claimed_name(about: ConfigRecord, node: int) -> str:
    """Return the name that a client gives itself, or its node's number if that is not usable."""
    try:
        return messages.read_text(about, "name")
    except FitError:
        return str(node)
