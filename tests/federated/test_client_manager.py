"""The client manager: incompatible clients and repeated names are rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest
from flwr.proto.node_pb2 import NodeInfo

from filmtransfer.federated.client import Client
from filmtransfer.federated.plan import Privacy
from tests.federated.tiny import ALL, make_server, population


def many_classes(count: int, name: str = "x") -> dict[str, list]:
    """A description whose classes are too much for a message, or their names."""
    return {"classes": [f"{name[: 255 - 6]}{i}" for i in range(count)], "counts": [1] * count}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"digest": "f00d" * 16}, "its digest is f00df00d"),
        ({"pixels": '{"size": 99}'}, "its pixels is"),
        ({"layout": "0" * 64}, "its layout is"),
        ({"classes": ["Alarm Clock"], "counts": [9]}, "Alarm Clock"),
        ({"counts": [3, 3]}, "one number of images each"),
        ({"counts": [3, 3, 0]}, "one number of images each"),
        ({"counts": [3.0, 3.0, 3.0]}, "one number of images each"),
        ({"counts": [3, 3, 10**7]}, "together at most 10000000"),
        ({"counts": [3, 3, 2**62]}, "together at most 10000000"),
        ({"classes": ["a", "a", "b"]}, "one number of images each"),
        ({"tests": -1}, "number of test images"),
        ({"tests": "many"}, "number of test images"),
        (many_classes(13_200), "13206 classes, of which the sums have 135.5 MB"),
        (many_classes(99_999), "too much for a message"),
        (many_classes(12_000, 255 * "\U0001f600"), "too much for a message"),
    ],
)
def test_incompatible_clients_are_rejected(change, reason):
    clients = population(ALL)

    def client(i: int) -> Client:
        faulty = clients.client(i)
        describe = faulty.describe
        if i == 2:
            faulty.describe = lambda: describe() | change
        elif "Alarm Clock" in change.get("classes", ()) and i == 0:
            faulty.describe = lambda: describe() | {"classes": ["alarm clock", "b"], "counts": [4, 5]}
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
    server.transport.connected_nodes = lambda: {
        1: "client-0",
        2: "somebody else",
        3: "client-2",
        4: "client-3",
    }
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
    names = {1: "client-0", 2: "client-1", 3: "client-2", 4: "mallory"}
    server.transport.connected_nodes = lambda: {node: names[node] for node in present}
    server.clients.wait_for_clients()
    present.symmetric_difference_update({1, 4})  # client-0 leaves, mallory comes with its name
    server.clients.wait_for_clients()
    assert sorted(info.name for info in server.clients.clients.values()) == [
        "client-0",
        "client-1",
        "client-2",
    ]
    assert server.clients.rejected[4].startswith("mallory: it calls itself client-0")


def test_a_client_that_leaves_while_it_describes_itself_keeps_the_name_of_its_key():
    """Flower lists only nodes that are online; what one that has left says about itself is not its name."""
    clients = population(ALL)

    def client(i: int) -> Client:
        instance = clients.client(i)
        instance.name = "client-0" if i == 3 else instance.name
        return instance

    server = make_server(clients, client=client)
    names = {1: "client-0", 2: "client-1", 3: "client-2", 4: "mallory"}
    present = {2, 3, 4}
    server.grid.get_nodes = lambda: [NodeInfo(node_id=n, name=names[n]) for n in sorted(present)]
    server.grid.get_node_ids = lambda: sorted(present)
    send = server.grid.send_and_receive

    def leave(*arguments, **options):
        replies = list(send(*arguments, **options))
        present.discard(4)
        return replies

    server.grid.send_and_receive = leave
    server.clients.wait_for_clients()
    server.grid.send_and_receive = send
    present |= {1, 4}
    server.clients.wait_for_clients()
    assert server.clients.connected() == {"client-0": 1, "client-1": 2, "client-2": 3}
    assert server.clients.rejected[4].startswith("mallory: it calls itself client-0")


def test_a_node_without_a_name_is_asked_again_where_clients_have_keys():
    server = make_server(population(ALL))
    names = {1: "client-0", 2: "client-1", 3: "", 4: "client-3"}
    server.transport.connected_nodes = lambda: dict(names)
    server.clients.wait_for_clients()
    assert sorted(server.clients.connected()) == ["client-0", "client-1", "client-3"]
    assert not server.clients.rejected
    names[3] = "client-2"
    server.clients.wait_for_clients()
    assert len(server.clients) == 4


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
    server.transport.connected_nodes = lambda: dict.fromkeys((1, 3, 4), "")
    server.clients.wait_for_clients()
    server.transport.connected_nodes = lambda: dict.fromkeys((1, 2, 3, 4), "")
    server.clients.wait_for_clients()
    assert server.clients.clients[2].name == "client-1"
