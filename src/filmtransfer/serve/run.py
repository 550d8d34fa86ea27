"""``fit serve``: a store, a backbone, workers and an HTTP server, until Ctrl-C.

The folder holds everything that is not elsewhere: the database, the logs, the admin's token, and the token of "me".
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import warnings
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from ..backbones import load_backbone
from ..errors import InputError, UnavailableError, UsageError
from ..files import write_atomically
from ..processes import exclusive_folder, interruptible, is_loopback
from ..training.torch_settings import usable_cores
from .app import create_app
from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .settings import Settings, hash_token
from .store import Place, Store
from .worker import LEASE
from .workers import Workers

ADMIN, ME, LOG = "admin-token", "me-token", "serve.log"
GOODBYE = 5  # seconds for answers that are under way

Say = Callable[[str], None]


@dataclass(frozen=True)
class Listen:
    """Where the service is reached, and how it shows who it is."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None
    insecure: bool = False

    def check(self) -> None:
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
                f"{self.host} can be reached from other machines, and without TLS tokens and photos can be read on the way.",
                "Give --certificate and --key, or --insecure-http if something before it does TLS.",
            )

    def socket(self) -> socket.socket:
        """The port, taken before anything that takes time."""
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(
                self.host, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            found = socket.socket(family, kind, protocol)
        except OSError as error:
            raise UsageError(
                f"{self.host} is not an address ({error.strerror}).", "Try --host 127.0.0.1."
            ) from None
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(100)
        except OSError as error:
            found.close()
            raise UnavailableError(
                f"Port {self.port} of {self.host} cannot be had ({error.strerror}).",
                "Choose another with --port, or end what uses it.",
            ) from None
        return found

    def url(self, port: int) -> str:
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        return f"{'https' if self.certificate else 'http'}://{f'[{host}]' if ':' in host else host}:{port}/"


@dataclass(frozen=True)
class Plan:
    """What ``fit serve`` was told."""

    folder: Path
    listen: Listen = field(default_factory=Listen)
    database: str | None = None
    objects: str | None = None
    backbone: str = "efficientnet_lite0"
    weights: Path | None = None
    workers: int = 1
    lease: float = LEASE
    admin_token_file: Path | None = None
    cache_mb: int = 256
    settings: Settings = field(default_factory=Settings)
    open_page: bool = False


def serve(plan: Plan, say: Say, ready: Callable[[dict[str, Any]], None]) -> None:
    """Serve until Ctrl-C or SIGTERM; ``ready`` is told once, when requests are answered."""
    plan.listen.check()
    with interruptible(), exclusive_folder(plan.folder, "fit serve"), ExitStack() as stack:
        listener = stack.enter_context(plan.listen.socket())
        engine = Engine(load_backbone(plan.backbone, plan.weights))
        where = place(plan)
        store = Store.open(where.database, where.objects)
        stack.callback(store.close)
        admin = admin_token(plan)
        link_token = own_token(store, plan.folder)
        batcher = Batcher(engine)
        stack.callback(batcher.close)
        settings = replace(plan.settings, admin=hash_token(admin))
        app = create_app(store, engine, batcher, Cache(plan.cache_mb), settings)
        workers = Workers(plan.workers, worker_words(plan, where), plan.folder, say)
        stack.callback(workers.end)
        workers.start()
        url = plan.listen.url(listener.getsockname()[1])
        link = f"{url}#token={link_token}" if link_token else url

        def tell() -> None:
            ready(
                {
                    "url": url,
                    "link": link,
                    "token": link_token,
                    "pid": os.getpid(),
                    "folder": str(plan.folder),
                    "admin_token_file": str(plan.admin_token_file or plan.folder / ADMIN),
                }
            )
            if plan.open_page:
                webbrowser.open(link)

        log_to(plan.folder / LOG, stack)
        server = Server(configuration(app, plan.listen), app.state.service.stopping.set, tell)
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:  # uvicorn has ended by then, and hands the signal on
            pass


class Server(uvicorn.Server):
    """uvicorn, which tells when it is there and when it has to go."""

    def __init__(
        self, config: uvicorn.Config, stopping: Callable[[], None], ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.stopping = stopping
        self.ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self.ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.stopping()
        super().handle_exit(sig, frame)


def configuration(app: Any, listen: Listen) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,  # ours has request ids and no addresses of things
        server_header=False,
        timeout_graceful_shutdown=GOODBYE,
        ssl_certfile=listen.certificate,
        ssl_keyfile=listen.key,
    )


def place(plan: Plan) -> Place:
    """Where ``fit user`` finds the same store: in the folder, or by the same URLs."""
    return Place.of(None if plan.database else plan.folder, plan.database, plan.objects)


def worker_words(plan: Plan, where: Place) -> list[str]:
    threads = max(1, usable_cores() // (plan.workers + 1))
    words = ["--database", where.database, "--backbone", plan.backbone, "--threads", str(threads)]
    words += ["--lease", str(plan.lease)]
    words += ["--objects", where.objects] if where.objects else []
    return [*words, "--weights", str(plan.weights)] if plan.weights else words


def admin_token(plan: Plan) -> str:
    """The admin's token: from the file that was named, or one of our own making."""
    file = plan.admin_token_file
    if file is None:
        file = plan.folder / ADMIN
        if not file.exists():
            write_atomically(file, f"{secrets.token_urlsafe(32)}\n".encode(), private=True)
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}).", "It has to hold the admin's token.") from None
    if len(token) < 16:
        raise InputError(
            f"The admin's token in {file} is too short.", "Use at least 16 characters that nobody guesses."
        )
    return token


def own_token(store: Store, folder: Path) -> str | None:
    """The token of "me", the one user of a service that has no other; made when there is none at all."""
    file = folder / ME
    if not store.users(limit=1):
        _, token = store.create_user("me")
        write_atomically(file, f"{token}\n".encode(), private=True)
        return token
    if not file.is_file():
        return None
    token = file.read_text().strip()
    return token if store.user_of(token) else None  # it may have been replaced since


def log_to(file: Path, stack: ExitStack) -> None:
    """Requests and mistakes of ours go to a file that does not grow for ever."""
    handler = RotatingFileHandler(file, maxBytes=10_000_000, backupCount=3, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    stack.callback(handler.close)
    for name, level in (("filmtransfer.serve", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False
        stack.callback(logger.removeHandler, handler)
    warnings.filterwarnings("ignore", module="PIL")
