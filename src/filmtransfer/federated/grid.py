"""A grid whose clients are in this process: the fast way to simulate, with the messages of the real one.

Clients answer one after another and share a model; nothing is copied to other processes. Messages are Flower's own,
so costs, strategies and the server are the same as over the network.
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
    """``client(i)`` is asked for when a message comes for node i + 1, and not kept."""

    def __init__(self, count: int, client: Callable[[int], Client]) -> None:
        self.count = count
        self.client = client
        self.memory: dict[int, RecordDict] = {}
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, 1  # or it makes no message

    def get_node_ids(self) -> list[int]:
        return list(range(1, self.count + 1))

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        del timeout
        return [self._reply(message) for message in messages]

    def _reply(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        client = self.client(node - 1)
        memory = self.memory.setdefault(node, RecordDict())
        return Message(
            respond(client, message.metadata.message_type, message.content, memory, node), reply_to=message
        )

    # The rest of Flower's interface is for grids that go on while nobody waits.

    def set_run(self, run: Run) -> None:
        del run

    @property
    def run(self) -> Run:
        return Run.create_empty(1)

    def create_message(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError("Message(...) makes messages.")

    def push_messages(self, messages: Iterable[Message]) -> NoReturn:
        raise NotImplementedError("Clients of this grid answer at once: send_and_receive.")

    def pull_messages(self, message_ids: Iterable[str]) -> NoReturn:
        raise NotImplementedError("Clients of this grid answer at once: send_and_receive.")
