"""Sending to clients and hearing from them, over any of Flower's grids; what it costs is counted as it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid

from .messages import Cost


@dataclass
class Traffic:
    """What went to the clients and came back."""

    down: Cost = field(default_factory=Cost)
    up: Cost = field(default_factory=Cost)

    def line(self) -> dict[str, int]:
        return {
            "parameters_down": self.down.parameters, "parameters_up": self.up.parameters,
            "bytes_down": self.down.bytes, "bytes_up": self.up.bytes,
        }  # fmt: skip


class Transport:
    """``traffic`` by purpose: training, describing, evaluating, statistics, finishing."""

    def __init__(self, grid: Grid, timeout: float) -> None:
        self.grid = grid
        self.timeout = timeout
        self.traffic: dict[str, Traffic] = {}

    def present(self) -> set[int]:
        """The nodes that are connected now."""
        return set(self.grid.get_node_ids())

    def registered(self) -> dict[int, str]:
        """The names that nodes were registered under with their keys, where they were."""
        return {node.node_id: node.name for node in self.grid.get_nodes() if node.name}

    def exchange(
        self, kind: str, requests: Mapping[int, RecordDict], purpose: str, timeout: float | None = None
    ) -> tuple[dict[int, RecordDict], dict[int, str]]:
        """One message to each node; what those said that answered, and why the others did not."""
        traffic = self.traffic.setdefault(purpose, Traffic())
        sent = []
        for node, content in sorted(requests.items()):
            message = Message(content, dst_node_id=node, message_type=kind)
            traffic.down.add(message)
            sent.append(message)
        answers: dict[int, RecordDict] = {}
        silent = dict.fromkeys(requests, "no answer")
        if not sent:
            return answers, silent
        for reply in list(self.grid.send_and_receive(sent, timeout=timeout or self.timeout)):
            node = _from(reply, sent)
            if reply.has_error():
                silent[node] = _last_line(reply.error.reason or "")
            else:
                traffic.up.add(reply)
                answers[node] = reply.content
                silent.pop(node, None)
        return answers, silent


def _from(reply: Message, sent: list[Message]) -> int:
    """The node that was asked: of a node that is gone SuperLink itself tells, in its own name."""
    asked = reply.metadata.reply_to_message_id
    return next(
        (m.metadata.dst_node_id for m in sent if asked and m.metadata.message_id == asked),
        reply.metadata.src_node_id,
    )


def _last_line(reason: str) -> str:
    lines = [line for line in reason.strip().splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it failed"
