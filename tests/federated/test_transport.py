"""The transport: missing nodes and the communication cost."""

from __future__ import annotations

import pytest
from flwr.app import Error, Message
from flwr.common.constant import ErrorCode

from filmtransfer.federated import messages
from tests.federated.tiny import ALL, make_server, population


@pytest.mark.parametrize(
    ("code", "reason", "words"),
    [
        (
            ErrorCode.NODE_UNAVAILABLE,
            "Error: Node Unavailable — The destination node failed to report a heartbeat within 2 × its expected interval.",
            "it stopped responding",
        ),
        (ErrorCode.UNKNOWN, "Something else.\n", "Something else."),
    ],
)
def test_a_disconnected_node_is_reported_by_name_in_plain_words(code, reason, words):
    """SuperLink replies for it, in its own name and with the id of the message."""
    clients = population(ALL)
    server = make_server(clients)
    send_and_receive = server.transport.grid.send_and_receive

    def send(messages_sent, *, timeout=None):
        sent = list(messages_sent)
        for i, message in enumerate(sent):
            message.metadata.__dict__["_message_id"] = f"m{i}"
        replies = send_and_receive(sent, timeout=timeout)
        if sent[0].metadata.message_type != messages.TRAIN:
            return replies
        error = Message(Error(code, reason), reply_to=sent[2])
        error.metadata.__dict__["_src_node_id"] = 1
        return [*replies[:2], error, *replies[3:]]

    server.transport.grid.send_and_receive = send
    (record,) = server.run().rounds
    assert record["missing"] == {"client-2": words}


def test_a_round_records_its_communication():
    clients = population()
    state = make_server(clients).run()
    for record in state.rounds:
        assert record["parameters_down"] == record["parameters_up"] == 3 * len(clients.start)
        assert 12 * len(clients.start) < record["bytes_down"] < 12 * len(clients.start) + 9_000
