"""TwoServices ``fit serve`` at one PostgreSQL and one folder of objects are one service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from filmtransfer.serve.store import Store, StoreLocation
from tests.serve.postgres import Cluster

from .service_process import Serving, events, fill, predicted, user_of
from .updates import photo

pytestmark = [
    pytest.mark.process(seconds=40),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


@dataclass
class TwoServices:
    """TwoServices services, and their store."""

    one: Serving
    other: Serving
    store: Store

    def trainer_of(self, user: str) -> tuple[Serving, Serving]:
        """Return the service whose worker has claimed the user's training, and the other one."""
        worker = self.store.trainings.all(self.store.projects.resolve(user))[0].worker
        assert worker is not None
        pid = int(worker.rpartition("-")[2])
        return (self.one, self.other) if pid in self.one.children() else (self.other, self.one)


@pytest.fixture
def two(cluster: Cluster, tmp_path: Path) -> Iterator[TwoServices]:
    admin = tmp_path / "admin"
    admin.write_text("the-admin-of-both-services\n")
    url, objects = cluster.fresh(), str(tmp_path / "objects")
    arguments = [
        "--database", url, "--objects", objects, "--admin-token-file", str(admin), "--lease", "2", "--threads", "1",
    ]  # fmt: skip
    made = TwoServices(
        Serving(tmp_path / "a", *arguments),
        Serving(tmp_path / "b", *arguments),
        Store.open(StoreLocation(url, objects)),
    )
    yield made
    made.one.end()
    made.other.end()
    made.store.close()


def test_two_services_share_a_store_and_either_may_die(two: TwoServices):
    addresses = {serving: serving.about()["url"] for serving in (two.one, two.other)}
    with user_of(addresses[two.one], "the-admin-of-both-services") as admin:
        made = admin.post("/api/users", json={"name": "Ann"}).json()
    clients = {serving: user_of(url, made["token"]) for serving, url in addresses.items()}
    a, b = clients.values()
    fill(a, photo, classes=2, shots=2)
    photos = a.get("/api/photos").json()
    assert len(photos["photos"]) == 4
    assert b.get("/api/photos").json() == photos

    asked = a.post("/api/trainings", json={"steps": 0})
    assert asked.status_code == 202
    received = list(events(b, asked.json()["id"]))
    assert [kind for _, kind, _ in received] == ["version", "end"]
    assert received[-1][2]["state"] == "done"
    for kind, seed in ((0, 77), (1, 78)):
        assert predicted(a, photo(kind, seed)) == predicted(b, photo(kind, seed))

    # The service that trains is killed with its worker; the other one completes the training.
    before = {version["number"] for version in a.get("/api/versions").json()["versions"]}
    id = a.post("/api/trainings", json={"steps": 6}).json()["id"]
    number = next(number for number, kind, _ in events(a, id) if kind == "progress")
    victim, survivor = two.trainer_of(made["id"])
    left = clients[survivor]
    victim.kill()
    last = list(events(left, id, after=number))[-1]
    assert (last[1], last[2]["state"]) == ("end", "done")
    after = left.get("/api/versions").json()["versions"]
    assert {version["number"] for version in after} > before
    assert after[0]["current"]
    assert left.get("/api/photos").json() == photos
    assert predicted(left, photo(0, 77))["version"] == after[0]["number"]
    for client in clients.values():
        client.close()
    assert survivor.end() == 0
