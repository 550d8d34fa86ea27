"""``fit serve``: a store, a backbone, workers and an HTTP server, until Ctrl-C.

The folder contains everything that is not stored elsewhere: the database, the logs, the admin's token, and the token of
the user "me".
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shlex
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import uvicorn
from starlette.types import ASGIApp

from ..budgets import MAX_CONNECTIONS_OF_ADDRESS, RESERVED_FILES, SPARE_CONNECTIONS
from ..errors import InputError, UnavailableError, UsageError
from ..files import write_atomically
from ..processes import (
    LOOPBACK,
    M_ARENA_MAX,
    exclusive_folder,
    exit_within,
    interruptible,
    is_loopback,
    raise_file_limit,
    set_malloc_options,
    usable_cores,
)
from .app import create_app
from .connections import Connections, LimitedProtocol
from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .log_file import log_to
from .settings import CACHE_MB, LEASE, PORT, WORKER_IDLE, ServiceSettings
from .store import JsonObject, Store, StoreLocation
from .store.users import hash_token
from .supervisor import Report, WorkerSupervisor

ADMIN_TOKEN_FILE, USER_TOKEN_FILE, LOG_FILE = "admin-token", "me-token", "serve.log"
BACKLOG = 2048  # connections that the system accepts before this process does
GRACE_SECONDS = 1  # for open responses when the service ends
EXIT_SECONDS = 15.0  # after SIGTERM the process ends in any case, even if the database or a disk hangs
MIN_ADMIN_TOKEN = 16  # characters


@dataclass(frozen=True)
class ListenAddress:
    """The address of the service, and its TLS certificate."""

    host: str = LOOPBACK
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False

    def check(self) -> None:
        """Refuse a port that does not exist, an incomplete certificate, and other machines without TLS."""
        if not 0 <= self.port < 65536:
            raise UsageError(f"There is no port {self.port}.", "Choose one from 1 to 65535, or 0 for any.")
        if (self.certificate is None) != (self.key is None):
            raise UsageError("TLS needs both --certificate and --key.", "Give both files, in PEM format.")
        for file in filter(None, (self.certificate, self.key)):
            if not file.is_file():
                raise InputError(
                    f"There is no file {file}.", "Give the certificate and its key, in PEM format."
                )
        if not (is_loopback(self.host) or self.certificate or self.insecure):
            raise UsageError(
                f"Other machines can reach {self.host}, and without TLS tokens and photos can be intercepted.",
                "Give --certificate and --key, or --insecure-http if a proxy before it does TLS.",
            )

    def bind(self) -> socket.socket:
        """Return a socket that listens on the port, before anything that takes time."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            listener = socket.socket(family, kind, protocol)
        except OSError as error:
            raise UsageError(
                f"{self.host} is not an address ({error.strerror}).", f"Try --host {LOOPBACK}."
            ) from None
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError as error:
            listener.close()
            raise UnavailableError(
                f"Port {self.port} of {self.host} is not available ({error.strerror}).",
                "Choose another with --port, or end the program that uses it.",
            ) from None
        return listener

    def url(self, port: int) -> str:
        """Return the URL of the service on this port."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        return f"{'https' if self.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


@dataclass(frozen=True)
class ServerConfig:
    """The options of ``fit serve``."""

    folder: Path
    listen: ListenAddress = field(default_factory=ListenAddress)
    database: str | None = None
    objects: str | None = None
    backbone: str = "efficientnet_lite0"
    weights: Path | None = None
    runtime: Literal["onnx", "torch"] = "onnx"
    threads: int | None = None
    workers: int = 1
    worker_idle: float = WORKER_IDLE
    lease: float = LEASE
    admin_token_file: Path | None = None
    cache_mb: int = CACHE_MB
    settings: ServiceSettings = field(default_factory=ServiceSettings)

    @property
    def location(self) -> StoreLocation:
        """The store: in the folder, or at the URLs."""
        return StoreLocation.of(None if self.database else self.folder, self.database, self.objects)

    def describe(self, url: str, token: str | None) -> JsonObject:
        """Return the document that ``fit serve`` prints when it is ready."""
        return {
            "url": url,
            "link": f"{url}#token={token}" if token else url,
            "token": token,
            "pid": os.getpid(),
            "folder": str(self.folder),
            "admin_token_file": str(self.admin_token_file or self.folder / ADMIN_TOKEN_FILE),
        }


def serve(
    config: ServerConfig,
    report: Report,
    on_phase: Report,
    on_ready: Callable[[JsonObject], None],
) -> None:
    """Serve until Ctrl-C or SIGTERM; ``on_ready`` is called once the service responds to requests.

    ``on_phase`` is called with what is being done until then, ``report`` with what happens later.
    """
    config.listen.check()
    set_malloc_options({M_ARENA_MAX: 1})  # otherwise each of many threads keeps memory of its own
    with interruptible(), exclusive_folder(config.folder, "fit serve"), ExitStack() as stack:
        listener = stack.enter_context(config.listen.bind())
        settings = with_admin(config)  # an error before anything that takes time
        store = Store.open(config.location)
        stack.callback(store.close)
        token = default_user_token(store, config.folder)
        on_phase(f"loading {config.backbone}")
        engine = Engine.open(
            config.backbone, config.weights, threads=config.threads, runtime=config.runtime, on_phase=on_phase
        )
        batcher = Batcher(engine)
        stack.callback(batcher.close)
        app = create_app(store, engine, batcher, Cache(config.cache_mb), settings, config.weights)
        supervisor = WorkerSupervisor(
            config.workers, worker_arguments(config), config.folder, store, report, config.worker_idle
        )
        decoders = app.state.service.decoders
        stack.callback(decoders.close)
        app.state.service.on_photo = supervisor.expect_training
        app.state.service.on_training = supervisor.wake
        app.state.service.can_train = supervisor.can_train
        stack.callback(supervisor.stop)
        supervisor.start()
        connections = Connections(connection_limits(settings, config.listen))
        about = config.describe(config.listen.url(listener.getsockname()[1]), token)
        log_to(config.folder / LOG_FILE, stack)

        def ready() -> None:
            decoders.start()  # before the first image, but not before the service is ready
            on_ready(about)

        server = HttpServer(
            uvicorn_config(app, config.listen),
            connections,
            on_ready=ready,
            on_shutdown=(partial(exit_within, EXIT_SECONDS), supervisor.end, app.state.service.end),
        )
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn has ended by then, and raises the signal again
            pass


class HttpServer(uvicorn.Server):
    """uvicorn with limits on connections, and with callbacks for its start and its end."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: Connections,
        on_ready: Callable[[], None],
        on_shutdown: Sequence[Callable[[], None]],
    ) -> None:
        super().__init__(config)
        self.connections = connections
        self.on_ready = on_ready
        self.on_shutdown = on_shutdown
        self._accepting: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and report it. Connections are accepted here, since uvicorn counts them after the TLS handshake."""

        def connection() -> LimitedProtocol:
            return LimitedProtocol(self.connections, self.config, self.server_state, self.lifespan.state)

        await super().startup([])
        for listener in sockets or []:
            listener.setblocking(False)
            listener.listen(BACKLOG)
            accepted = self.connections.accept(listener, connection, self.config.ssl)
            self._accepting.append(asyncio.create_task(accepted))
        if self.started:
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Report the end, then wait a moment for open responses."""
        for report in self.on_shutdown:
            report()
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        await super().shutdown(sockets)


def uvicorn_config(app: ASGIApp, listen: ListenAddress) -> uvicorn.Config:
    """Return the settings of uvicorn."""
    return uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # request_log.py writes one without ids of records
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
    )


def connection_limits(settings: ServiceSettings, listen: ListenAddress) -> ServiceSettings:
    """Return the settings with the limits on connections that this process and address allow.

    Behind a proxy, and on this machine, the connections of all clients have the same address.
    """
    allowed = raise_file_limit() - RESERVED_FILES - SPARE_CONNECTIONS
    total = min(settings.max_connections, max(1, allowed))
    of_address = settings.max_connections_of_address
    if of_address is None:
        direct = listen.certificate is not None and not is_loopback(listen.host)
        of_address = MAX_CONNECTIONS_OF_ADDRESS if direct else 0
    return replace(settings, max_connections=total, max_connections_of_address=of_address)


def worker_arguments(config: ServerConfig) -> list[str]:
    """Return the command-line arguments of a worker process."""
    location, threads = config.location, max(1, usable_cores() // (config.workers + 1))
    arguments = ["--database", location.database, "--backbone", config.backbone, "--threads", str(threads)]
    arguments += ["--lease", str(config.lease)]
    arguments += ["--objects", location.objects] if location.objects else []
    return [*arguments, "--weights", str(config.weights)] if config.weights else arguments


def with_admin(config: ServerConfig) -> ServiceSettings:
    """Return the settings with the digest of the admin's token, which is read from its file or generated."""
    file = config.admin_token_file
    if file is None:
        file = config.folder / ADMIN_TOKEN_FILE
        if not file.exists():
            write_atomically(file, f"{secrets.token_urlsafe(32)}\n".encode(), private=True)
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}).", "It must contain the admin's token.") from None
    if len(token) < MIN_ADMIN_TOKEN:
        raise InputError(
            f"The admin's token in {file} is too short.",
            f"Use at least {MIN_ADMIN_TOKEN} characters that nobody can guess.",
        )
    return replace(config.settings, admin_digest=hash_token(token))


def default_user_token(store: Store, folder: Path) -> str | None:
    """Return the token of the user "me", who is created if there are no users; None if it is not known (any more)."""
    file = folder / USER_TOKEN_FILE
    if not store.users.all(limit=1):
        _, token = store.users.create("me")
        write_atomically(file, f"{token}\n".encode(), private=True)
        return token
    if not file.is_file():
        return None
    token = file.read_text().strip()
    return token if store.users.by_token(token) else None  # it may have been replaced


def explain_missing_token(config: ServerConfig, url: str) -> str:
    """Return in a line why the link has no token, and how to get one that does."""
    file = config.folder / USER_TOKEN_FILE
    reason = f"that in {file} was replaced" if file.is_file() else "'fit serve' did not create the users"
    store = "the same --database" if config.database else f"--folder {shlex.quote(str(config.folder))}"
    return (
        f"The link has no token, because {reason}: use {url}#token=TOKEN with the token of a user, "
        f"or with a new one of 'fit user token ID' with {store} ('fit user list' shows the ids)."
    )
