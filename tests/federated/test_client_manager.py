"""The client manager: incompatible clients and repeated names are rejected."""

from __future__ import annotations

import pytest

from filmtransfer.federated.client import Client
from tests.federated.tiny import ALL, make_server, population


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest": "f00d" * 16}, "its digest is f00df00d"),
        ({"pixels": '{"size": 99}'}, "its pixels is"),
        ({"layout": "0" * 64}, "its layout is"),
        ({"classes": ["Alarm Clock"]}, "Alarm Clock"),
    ],
)
def test_incompatible_clients_are_rejected(change, reason):
    clients = population(ALL)

    def client(i: int) -> Client:
        faulty = clients.client(i)
        describe = faulty.describe
        if i == 2:
            faulty.describe = lambda: describe() | change
        elif "classes" in change and i == 0:
            faulty.describe = lambda: describe() | {"classes": ["alarm clock", "b"]}
        return faulty

    log: list[str] = []
    server = make_server(clients, client=client, log=log.append)
    (record,) = server.run().rounds
    assert record["clients"] == ["client-0", "client-1", "client-3"]
    (refused,) = [text for text in log if "is refused" in text]
    assert refused.startswith("client-2 is refused")
    assert reason in refused
    if "digest" in change:
        assert clients.model.backbone.digest in refused, "both digests"


def test_a_second_client_of_a_name_is_rejected():
    clients = population(ALL)

    def client(i: int) -> Client:
        faulty = clients.client(i)
        faulty.name = "anna" if i < 2 else faulty.name
        return faulty

    log: list[str] = []
    server = make_server(clients, client=client, log=log.append)
    server.run()
    assert len(server.clients) == 3
    assert any("another client of this name" in text for text in log)


def test_a_client_must_use_the_name_of_its_key():
    clients = population(ALL)
    log: list[str] = []
    server = make_server(clients, log=log.append)
    server.transport.registered_names = lambda: {1: "client-0", 2: "somebody else"}
    server.run()
    assert "client-1 is refused: its key is that of somebody else." in log[0]
    assert len(server.clients) == 3
