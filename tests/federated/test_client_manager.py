"""The client manager: incompatible clients and repeated names are rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer.federated.client import Client
from filmtransfer.federated.plan import Privacy
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
    assert (
        "somebody else is refused: it calls itself client-1, and its key is that of somebody else." in log[0]
    )
    assert len(server.clients) == 3


def test_a_client_with_the_name_of_an_absent_one_does_not_take_its_seat():
    """With its seat the roster would shrink, and the accountant's sampling rate would no longer hold."""
    clients = population(replace(ALL, privacy=Privacy(noise=5.0, delta=1e-3)))

    def client(i: int) -> Client:
        instance = clients.client(i)
        instance.name = "client-0" if i == 3 else instance.name
        return instance

    server = make_server(clients, client=client)
    present = {1, 2, 3}
    server.transport.connected_nodes = lambda: set(present)
    server.transport.registered_names = lambda: {i + 1: f"client-{i}" for i in range(3)} | {4: "mallory"}
    server.clients.wait_for_clients()
    present.symmetric_difference_update({1, 4})  # client-0 leaves, mallory comes with its name
    server.clients.wait_for_clients()
    assert sorted(info.name for info in server.clients.clients.values()) == [
        "client-0",
        "client-1",
        "client-2",
    ]
    assert server.clients.rejected[4].startswith("mallory: it calls itself client-0")


@pytest.mark.parametrize("name", ["", "a" * 300, "two\nlines", "red \x1b[31m", "\u202egnp.exe", 7])
def test_a_name_that_is_not_plain_text_is_rejected(name):
    clients = population(ALL)

    def client(i: int) -> Client:
        instance = clients.client(i)
        instance.name = name if i == 1 else instance.name
        return instance

    log: list[str] = []
    server = make_server(clients, client=client, log=log.append)
    server.clients.wait_for_clients()
    assert log == ["2 is refused: Its name is not one line of 1 to 255 printable characters."]
    assert len(server.clients) == 3


def test_a_rejected_client_that_comes_back_is_asked_again():
    clients = population(ALL)
    server = make_server(clients)
    server.clients.wait_for_clients()
    del server.clients.clients[2]
    server.clients.rejected[2] = "client-1: its policy."
    server.clients.wait_for_clients()
    assert 2 not in server.clients.clients
    server.transport.connected_nodes = lambda: {1, 3, 4}
    server.clients.wait_for_clients()
    server.transport.connected_nodes = lambda: {1, 2, 3, 4}
    server.clients.wait_for_clients()
    assert server.clients.clients[2].name == "client-1"
