"""``fit serve --ray local``: replicas on a Ray cluster answer as the plain application does."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import pytest

from filmtransfer.cli import main
from filmtransfer.serve.engine.cache import Cache
from filmtransfer.serve.engine.multi_user import Engine
from filmtransfer.serve.store import Store, StoreLocation
from tests.conftest import picture

from .processes import Serving, events, fill, predicted, until, user_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def png(kind: int, seed: int) -> bytes:
    out = BytesIO()
    picture(kind, seed).save(out, "PNG")
    return out.getvalue()


def ours(mark: str) -> list[int]:
    """The processes that have the mark in their environment: those that we started, and theirs."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            pass
    return found


@pytest.mark.process(seconds=60)
def test_replicas_answer_as_the_plain_application_does(tmp_path: Path):
    mark = f"{os.getpid()}-{tmp_path.name}"
    with tempfile.TemporaryDirectory(prefix="r") as short:  # Ray's sockets want a short path
        serving = Serving(
            tmp_path / "ray", "--ray", "local", "--replicas", "2", "--workers", "1",
            FIT_TEST_RAY=mark, RAY_TMPDIR=short, OMP_NUM_THREADS="1",
        )  # fmt: skip
        try:
            about = serving.about()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", about["url"])
            with user_of(about["url"], about["token"]) as client:
                fill(client, png, classes=2, shots=2)
                asked = client.post("/api/trainings", json={"steps": 0}).json()
                heard = list(events(client, asked["id"]))
                assert [kind for _, kind, _ in heard] == ["version", "end"], heard
                queries = [png(kind, 70 + kind) for kind in range(3)]
                found = [predicted(client, query) for query in queries * 4]  # either replica
                me = client.get("/api/me").json()
                refused = client.get("/api/users")
            assert refused.status_code == 403
            assert found[:3] * 4 == found
            expected = plainly(Path(about["folder"]), me["id"], queries)
            for answer, plain in zip(found, expected, strict=False):
                said = {one["class"]: one["p"] for one in answer["probabilities"]}
                assert said == pytest.approx(plain, abs=1e-5)
        finally:
            code = serving.end()
        assert code == 0
        until(lambda: not ours(mark))  # nothing goes on behind our back


def plainly(folder: Path, user: str, queries: list[bytes]) -> list[dict[str, float]]:
    """What the engine says here, of the version that the cluster's trainer published."""
    from filmtransfer.backbones import load_backbone

    place = StoreLocation.of(folder)
    store = Store.open(place)
    engine = Engine(load_backbone("efficientnet_lite0"))
    member = Cache(16).get((user, 1), lambda: engine.member(store.versions.content(user, 1)))
    store.close()
    answers = [engine.answers([member], engine.pixels(q, member.spec)[None])[0] for q in queries]
    return [dict(answer.classes) for answer in answers]


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (["--ray", "auto"], 2, "cannot share a SQLite file"),
        (["--ray", "local", "--host", "0.0.0.0", "--insecure-http"], 2, "this machine only"),
        (["--ray", "127.0.0.1:1", "--database", "postgresql://fit@127.0.0.1:1/none"], 5, "does not answer"),
    ],
)
def test_what_cannot_work_is_said_at_once(capsys, tmp_path: Path, words, code, line):
    assert main(["serve", str(tmp_path / "kept"), "--port", "0", *words]) == code
    assert line in capsys.readouterr().err


def test_a_missing_part_has_its_pip_line(capsys, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_MODE", "")  # what is set for Ray goes again
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    assert main(["serve", str(tmp_path / "kept"), "--port", "0", "--ray", "local"]) == 5
    assert "filmtransfer[scale]" in capsys.readouterr().err
