"""The transport: missing nodes and the communication cost."""

from __future__ import annotations

from flwr.app import Error, Message

from filmtransfer.federated import messages
from tests.federated.tiny import ALL, make_server, population


def test_a_disconnected_node_is_reported_by_name():
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
        error = Message(Error(code=5, reason="Node unavailable"), reply_to=sent[2])
        error.metadata.__dict__["_src_node_id"] = 1
        return [*replies[:2], error, *replies[3:]]

    server.transport.grid.send_and_receive = send
    (record,) = server.run().rounds
    assert record["missing"] == {"client-2": "Node unavailable"}


def test_a_round_records_its_communication():
    clients = population()
    state = make_server(clients).run()
    for record in state.rounds:
        assert record["parameters_down"] == record["parameters_up"] == 3 * len(clients.start)
        assert 12 * len(clients.start) < record["bytes_down"] < 12 * len(clients.start) + 9_000
