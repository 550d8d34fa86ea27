"""Two PostgreSQL servers, of which one dies or hangs: nothing acknowledged is lost, and the store continues with the other."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from filmtransfer.errors import UsageError
from filmtransfer.serve.store import Store, StoreLocation, StoreUnavailableError, database
from filmtransfer.serve.store.database import Database, display_url
from tests.serve.postgres import Cluster
from tests.serve.service_process import until

BEFORE, AFTER = 20, 20  # photos


def test_the_url_of_several_servers():
    url = Database("postgresql://fit:se,cr%40et@one:5432,two/base?target_session_attrs=read-write").url
    assert (url.username, url.password, url.database) == ("fit", "se,cr@et", "base")
    assert url.query["host"] == ("one:5432", "two")
    assert url.query["target_session_attrs"] == "read-write"
    assert "se,cr" not in display_url("postgresql://fit:se,cr@one:1,two:2/base")
    assert Database("postgresql://fit:a,b@one:1/base").url.host == "one"
    assert Database("postgresql://one,two").url.query["host"] == ("one", "two")
    with pytest.raises(UsageError):
        Database("postgresql://one:port,two:2/base")


@pytest.fixture
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    """A primary that acknowledges a transaction when its standby has it."""
    with (
        tempfile.TemporaryDirectory(prefix="fit-postgres-") as a,
        tempfile.TemporaryDirectory(prefix="fit-postgres-") as b,
    ):
        clusters = []
        try:
            clusters.append(Cluster(Path(a)))
            clusters[0].start()
            clusters.append(Cluster(Path(b), clusters[0]))
            clusters[1].start()
            clusters[0].execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            clusters[0].execute("SELECT pg_reload_conf()")
            until(lambda: clusters[0].execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"))
            yield clusters[0], clusters[1]
        finally:
            for cluster in clusters:
                cluster.stop()


@pytest.mark.process(seconds=20)
@pytest.mark.parametrize("failure", ["dies", "hangs"])
def test_a_standby_takes_over(
    pair: tuple[Cluster, Cluster], tmp_path: Path, opened, monkeypatch, failure: str
):
    primary, standby = pair
    monkeypatch.setattr(database, "WAIT", 3.0)
    monkeypatch.setattr(database, "CONNECT_SECONDS", 2)
    name = primary.fresh().rpartition("/")[2]
    hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
    url = f"postgresql://fit@{hosts}/{name}?target_session_attrs=read-write"
    store: Store = opened(StoreLocation(url, str(tmp_path / "objects")))
    project = store.projects.resolve(store.users.create("Ann")[0].id)
    only = store.classes.add(project, "cat")
    acknowledged: dict[str, bytes] = {}
    failures = 0
    done = threading.Event()

    def write() -> None:
        nonlocal failures
        number = 0
        while not done.is_set():
            content = b"%d" % number
            try:
                photo, _ = store.photos.add(project, only.id, content, b"small", "image/png")
            except StoreUnavailableError:
                failures += 1
                done.wait(0.05)
                continue
            acknowledged[photo.id] = content
            number += 1

    writer, hanging = threading.Thread(target=write), ExitStack()
    writer.start()
    try:
        until(lambda: len(acknowledged) >= BEFORE)
        if failure == "dies":
            primary.stop(crash=True)
        else:
            hanging.enter_context(primary.hanging())
        until(lambda: failures)
        written = len(acknowledged)
        assert standby.execute("SELECT pg_promote()") == [(True,)]
        until(lambda: len(acknowledged) >= written + AFTER)
    finally:
        done.set()
        hanging.close()
        writer.join()
    assert store.is_writable()
    stored = {photo.id for photo in store.photos.all(project)}
    assert stored >= set(acknowledged)
    assert all(store.photos.content(project, id) == content for id, content in acknowledged.items())
    assert store.users.usage(store.users.all()[0].id).photos == len(stored)


def test_a_server_that_accepts_no_writes_is_unavailable(cluster: Cluster, opened):
    store: Store = opened(StoreLocation(cluster.fresh()))
    cluster.stop()
    cluster.start(default_transaction_read_only="on")
    try:
        with pytest.raises(StoreUnavailableError):
            store.users.create("Ann")
        assert store.users.all() == []
        assert not store.is_writable()
    finally:
        cluster.stop()
        cluster.start()
    store.users.create("Ann")
