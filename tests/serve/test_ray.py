"""``fit serve --ray local``: replicas on a Ray cluster predict as the engine does."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from filmtransfer.cli import main
from filmtransfer.serve.engine.cache import Cache
from filmtransfer.serve.engine.multi_user import Engine
from filmtransfer.serve.store import Store, StoreLocation

from .service_process import Serving, events, fill, predicted, until, user_of
from .updates import photo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def own_processes(mark: str) -> list[int]:
    """Return the processes that this test started, directly or not: they have the mark in their environment."""
    pids = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                pids.append(int(folder.name))
        except OSError:
            pass
    return pids


@pytest.mark.long
@pytest.mark.process(seconds=60)
def test_replicas_predict_as_the_engine_does(tmp_path: Path):
    mark = f"{os.getpid()}-{tmp_path.name}"
    with tempfile.TemporaryDirectory(prefix="r") as short:  # Ray's sockets need a short path
        serving = Serving(
            tmp_path / "ray", "--ray", "local", "--replicas", "2", "--workers", "1",
            FIT_TEST_RAY=mark, RAY_TMPDIR=short, OMP_NUM_THREADS="1",
        )  # fmt: skip
        try:
            about = serving.about()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", about["url"])
            with user_of(about["url"], about["token"]) as client:
                fill(client, photo, classes=2, shots=2)
                asked = client.post("/api/trainings", json={"steps": 0}).json()
                received = list(events(client, asked["id"]))
                assert [kind for _, kind, _ in received] == ["version", "end"], received
                queries = [photo(kind, 70 + kind) for kind in range(3)]
                predictions = [predicted(client, query) for query in queries * 4]  # either replica
                me = client.get("/api/me").json()
                refused = client.get("/api/users")
            assert refused.status_code == 403
            assert predictions[:3] * 4 == predictions
            expected = predict_with_engine(Path(about["folder"]), me["id"], queries)
            for answer, plain in zip(predictions, expected, strict=False):
                probabilities = {one["class"]: one["p"] for one in answer["probabilities"]}
                assert probabilities == pytest.approx(plain, abs=1e-5)
        finally:
            code = serving.end()
        assert code == 0
        until(lambda: not own_processes(mark))  # no process is left


def predict_with_engine(folder: Path, user: str, queries: list[bytes]) -> list[dict[str, float]]:
    """Predict with the version that a worker of the cluster published."""

    location = StoreLocation.of(folder)
    store = Store.open(location)
    engine = Engine.open("efficientnet_lite0")
    project = store.projects.resolve(user)
    member = Cache(16).get((user, project, 1), lambda: engine.member(store.versions.content(project, 1)))
    store.close()
    answers = [engine.answers([member], engine.pixels(q, member.spec)[None])[0] for q in queries]
    return [dict(answer.classes) for answer in answers]


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--ray", "auto"], 2, "cannot share a SQLite file"),
        (["--ray", "local", "--host", "0.0.0.0", "--insecure-http"], 2, "this machine only"),
        (["--ray", "127.0.0.1:1", "--database", "postgresql://fit@127.0.0.1:1/none"], 5, "does not respond"),
    ],
)
def test_options_that_cannot_work_are_refused(capsys, tmp_path: Path, arguments, code, line):
    assert main(["serve", str(tmp_path / "kept"), "--port", "0", *arguments]) == code
    assert line in capsys.readouterr().err


def test_a_missing_extra_names_its_pip_command(capsys, tmp_path: Path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_AUTH_MODE", "")  # restored after the test
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    assert main(["serve", str(tmp_path / "kept"), "--port", "0", "--ray", "local"]) == 5
    assert "[scale]" in capsys.readouterr().err
