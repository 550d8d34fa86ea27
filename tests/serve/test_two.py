"""Two ``fit serve`` at one PostgreSQL and one folder of objects are one service."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.conftest import picture
from tests.personal.postgres import Cluster, cluster  # noqa: F401

from .processes import Serving, events, fill, predicted, until, user_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def png(kind: int, seed: int) -> bytes:
    out = BytesIO()
    picture(kind, seed).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def two(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Serving, Serving]]:  # noqa: F811
    admin = tmp_path / "admin"
    admin.write_text("the-admin-of-both-services\n")
    words = [
        "--database", cluster.fresh(), "--objects", str(tmp_path / "objects"),
        "--admin-token-file", str(admin), "--lease", "2", "--threads", "1",
    ]  # fmt: skip
    first = Serving(tmp_path / "first", *words)
    second = Serving(tmp_path / "second", *words)
    yield first, second
    for one in (first, second):
        one.end()


def test_two_are_one_and_either_may_die(two: tuple[Serving, Serving], tmp_path: Path):
    first, second = two
    here, there = first.about()["url"], second.about()["url"]
    with user_of(here, "the-admin-of-both-services") as admin:
        made = admin.post("/api/users", json={"name": "Ann"}).json()
    with user_of(here, made["token"]) as a, user_of(there, made["token"]) as b:
        fill(a, png, classes=2, shots=2)
        assert b.get("/api/photos").json() == a.get("/api/photos").json()

        asked = a.post("/api/trainings", json={"steps": 0})
        assert asked.status_code == 202
        heard = list(events(b, asked.json()["id"]))
        assert [kind for _, kind, _ in heard] == ["version", "end"]
        assert heard[-1][2]["state"] == "done"
        for kind, seed in ((0, 77), (1, 78)):
            assert predicted(a, png(kind, seed)) == pytest.approx(predicted(b, png(kind, seed)), abs=1e-5)

        # The first one dies while one of the two trains; whoever is left brings it to its end.
        asked = b.post("/api/trainings", json={"steps": 6}).json()
        for number, kind, _ in events(b, asked["id"]):  # noqa: B007
            if kind == "progress":
                break
        before = b.get("/api/versions").json()["versions"]
        photos = b.get("/api/photos").json()
        first.kill()
        last = list(events(b, asked["id"], after=number))[-1]
        assert (last[1], last[2]["state"]) == ("end", "done")
        after = b.get("/api/versions").json()["versions"]
        assert {v["number"] for v in after} > {v["number"] for v in before}
        assert after[0]["current"]
        assert b.get("/api/photos").json() == photos
        assert predicted(b, png(0, 77))["version"] == after[0]["number"]
    assert until(lambda: second.end() == 0)
