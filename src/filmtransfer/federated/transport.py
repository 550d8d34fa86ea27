"""Sending messages to clients and receiving their replies over any Flower grid, with the communication cost."""

from __future__ import annotations

from collections.abc import Mapping

from flwr.app import Message, RecordDict
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from ..errors import FitError
from .messages import check_content, make_reply, message_cost, one_line
from .records import RoundRecord

MAX_LINE = 200  # characters of an error that Flower reports

# Flower's reasons why there is no reply, in the words of a user; other errors keep their own.
NO_REPLY = {
    ErrorCode.MESSAGE_UNAVAILABLE: "the request to it, or its reply, was lost",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "its reply came too late",
    ErrorCode.NODE_UNAVAILABLE: "it stopped responding",
    ErrorCode.CLIENT_APP_CRASHED: "its process ended",
}


def no_traffic() -> RoundRecord:
    """Return the part of a record that counts what is sent to the clients (down) and received from them (up)."""
    return {"parameters_down": 0, "parameters_up": 0, "bytes_down": 0, "bytes_up": 0}


class Transport:
    """The connection to the clients; ``traffic`` is by purpose, such as training, statistics and scores."""

    def __init__(self, grid: Grid, timeout: float) -> None:
        self.grid = grid
        self.timeout = timeout
        self.traffic: dict[str, RoundRecord] = {}

    def connected_nodes(self) -> dict[int, str]:
        """Return the nodes that are connected now with the names of their keys, empty without keys."""
        return {node.node_id: node.name for node in self.grid.get_nodes()}

    def exchange(
        self,
        message_type: str,
        requests: Mapping[int, RecordDict],
        purpose: str,
        timeout: float | None = None,
    ) -> tuple[dict[int, RecordDict], dict[int, str]]:
        """Send one message to each node; return the replies, and for the other nodes why there is none."""
        traffic = self.traffic.setdefault(purpose, no_traffic())
        sent = []
        for node, content in sorted(requests.items()):
            message = Message(content, dst_node_id=node, message_type=message_type)
            parameters, size = message_cost(message)
            traffic["parameters_down"] += parameters
            traffic["bytes_down"] += size
            sent.append(message)
        replies: dict[int, RecordDict] = {}
        missing = dict.fromkeys(requests, "no answer")
        if not sent:
            return replies, missing
        for reply in list(self.grid.send_and_receive(sent, timeout=timeout or self.timeout)):
            node = _replying_node(reply, sent)
            if reply.has_error():
                missing[node] = NO_REPLY.get(reply.error.code) or _last_line(reply.error.reason or "")
            elif reason := _reason_to_refuse(reply):
                replies[node] = make_reply(str(node), about={"refused": reason})
                missing.pop(node, None)
            else:
                parameters, size = message_cost(reply)
                traffic["parameters_up"] += parameters
                traffic["bytes_up"] += size
                replies[node] = reply.content
                missing.pop(node, None)
        return replies, missing


def _reason_to_refuse(reply: Message) -> str:
    """Return why a reply is refused before it is read, in words that follow the client's name; empty if it is not."""
    try:
        check_content(reply.content)
    except FitError as error:
        return str(error)
    return ""


def _replying_node(reply: Message, sent: list[Message]) -> int:
    """Return the node that the request went to: SuperLink itself replies for a node that has disconnected."""
    request = reply.metadata.reply_to_message_id
    return next(
        (m.metadata.dst_node_id for m in sent if request and m.metadata.message_id == request),
        reply.metadata.src_node_id,
    )


def _last_line(reason: str) -> str:
    lines = [line for line in reason.strip().splitlines() if line.strip()]
    return one_line(lines[-1][-MAX_LINE:]) if lines else "it failed"
