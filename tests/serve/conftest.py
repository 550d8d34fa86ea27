"""A service with two users for each module: a real store, a real backbone, small images."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import pytest

from filmtransfer import FewShotClassifier
from filmtransfer.backbones import Backbone, load_backbone
from filmtransfer.serve.app import create_app
from filmtransfer.serve.connections import Connections
from filmtransfer.serve.decoder import Message, respond
from filmtransfer.serve.decoders import DecodeJob, Decoders
from filmtransfer.serve.engine.batcher import Batcher
from filmtransfer.serve.engine.cache import Cache
from filmtransfer.serve.engine.multi_user import Engine
from filmtransfer.serve.server import HttpServer, ListenAddress, uvicorn_config
from filmtransfer.serve.settings import ServiceSettings
from filmtransfer.serve.store import Store, StoreLocation
from filmtransfer.serve.store.users import hash_token
from tests.conftest import picture
from tests.serve import updates
from tests.serve.postgres import Cluster

ADMIN = "the-admin-of-these-tests"
CLASSES = ("disc", "bars", "plain")


def encoded(kind: int, seed: int, format: str = "JPEG", **more: Any) -> bytes:
    out = BytesIO()
    picture(kind, seed).save(out, format, **more)
    return out.getvalue()


def add_two_classes(client: httpx.Client, **params: str) -> None:
    """Add what a training needs: two classes with a photo each."""
    for kind in range(2):
        made = client.post("/api/classes", json={"name": f"kind {kind}"}, params=params).raise_for_status()
        path, jpeg = f"/api/classes/{made.json()['id']}/photos", {"Content-Type": "image/jpeg"}
        client.post(path, content=encoded(kind, kind), headers=jpeg, params=params).raise_for_status()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class DecodersInThisProcess(Decoders):
    """What decodes without processes, which are slow to start; tests/serve/test_decoders.py has those."""

    def _ask(self, request: dict[str, Any], content: bytes, job: DecodeJob) -> Message:
        del job
        return respond(request, content)


@dataclass
class RunningService:
    """A running service, and its users."""

    store: Store
    app: Any
    url: str
    connections: Connections
    tokens: dict[str, str] = field(default_factory=dict)
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, who: str | None, **more: Any) -> httpx.Client:
        """Return an HTTP client of a user, of "admin", or without a token (None)."""
        headers = {} if who is None else bearer(self.tokens[who])
        made = httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60, **more)
        self.clients.append(made)
        return made

    def add_user(self, name: str) -> str:
        user, self.tokens[name] = self.store.users.create(name)
        return user.id


class UvicornThread:
    """uvicorn in a thread, on its own port."""

    def __init__(self, app: Any, listen: ListenAddress | None = None) -> None:
        self.socket = socket.socket()
        # Without a fixed size the kernel lets it grow to 32 MB, which would count as sent in test_limits.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1_000_000)
        self.socket.bind(("127.0.0.1", 0))
        self.connections = Connections(app.state.service.settings)
        self.server = HttpServer(
            uvicorn_config(app, listen or ListenAddress()),
            self.connections,
            on_ready=lambda: None,
            on_shutdown=(),
        )
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.stopping = app.state.service.stopping

    def __enter__(self) -> str:
        self.thread.start()
        while not self.server.started and self.thread.is_alive():
            threading.Event().wait(0.01)
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


@pytest.fixture(scope="package")
def backbone() -> Backbone:
    return load_backbone("efficientnet_lite0")


@pytest.fixture(scope="package")
def engine() -> Engine:
    return updates.engine(64)


@pytest.fixture(scope="package")
def update_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a classifier that distinguishes the pictures of these tests."""
    clf = FewShotClassifier(steps=0, image_size=64)
    clf.fit(
        [picture(c, 10 * c + i) for c in range(3) for i in range(4)], [n for n in CLASSES for _ in range(4)]
    )
    file = tmp_path_factory.mktemp("update") / "classifier.safetensors"
    clf.save(file)
    return file


def run_service(
    location: Path, engine: Engine, settings: ServiceSettings, database: str | None = None
) -> Iterator[RunningService]:
    """Run a service with a store in a folder; a generator for fixtures."""
    store = Store.open(StoreLocation.of(location, database))
    batcher = Batcher(engine)
    app = create_app(store, engine, batcher, Cache(16), settings)
    app.state.service.decoders = DecodersInThisProcess(settings)
    server = UvicornThread(app)
    with server as url:
        tokens = {"admin": ADMIN, "unknown": "nobody-knows-this-token"}
        service = RunningService(store, app, url, server.connections, tokens)
        yield service
        for client in service.clients:
            client.close()
    batcher.close()
    store.close()


SETTINGS = ServiceSettings(
    admin_digest=hash_token(ADMIN),
    poll_seconds=0.02,
    heartbeat_seconds=0.5,
    max_photo_bytes=3_000_000,
    rate=1_000_000,
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[RunningService]:
    for running in run_service(tmp_path_factory.mktemp("service"), engine, SETTINGS):
        running.add_user("anna")
        running.add_user("bob")
        yield running


@pytest.fixture(scope="session")
def started_cluster() -> Iterator[Cluster]:
    """Start PostgreSQL for the first test that needs it."""
    with tempfile.TemporaryDirectory(prefix="fit-postgres-") as root:
        started = Cluster(Path(root))
        started.start()
        yield started
        started.stop()


@pytest.fixture
def cluster(started_cluster: Cluster) -> Cluster:
    """Return the running PostgreSQL; ``cluster.fresh()`` is the URL of an empty database."""
    if started_cluster.process is None:  # the last test has stopped it
        started_cluster.start()
    return started_cluster
