"""A Flower grid whose clients are in this process: the fast way to simulate, with real messages.

Clients handle messages one after another and share a model; nothing is copied to other processes. Messages are
Flower's own, so costs, strategies and the server are the same as over the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

from .client import Client, respond


class InProcessGrid(Grid):
    """Passes the messages of node i + 1 to ``client(i)``, which is created for each message."""

    def __init__(self, count: int, client: Callable[[int], Client]) -> None:
        self.count = count
        self.client = client
        self.states: dict[int, RecordDict] = {}
        # Flower creates no message without these.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1

    def get_node_ids(self) -> list[int]:
        """Return the nodes of all clients: they are always connected."""
        return list(range(1, self.count + 1))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        """Return the replies to the messages."""
        del timeout
        return [self._reply(message) for message in messages]

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        client = self.client(node - 1)
        state = self.states.setdefault(node, RecordDict())
        return Message(
            respond(client, message.metadata.message_type, message.content, state, node), reply_to=message
        )

    # The rest of Flower's interface is for asynchronous grids.

    def set_run(self, run: Run) -> None:
        """Do nothing: there is one run."""
        del run

    @property
    def run(self) -> Run:
        """The only run."""
        return Run.create_empty(1)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("Use send_and_receive: this grid is synchronous.")

    create_message = push_messages = pull_messages = _refuse
