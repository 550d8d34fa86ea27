"""``fit serve --ray``: the application as replicas on a Ray cluster, with workers as actors.

The replicas share only the store, so any of them can respond to any request. Ray replaces a replica that dies; the
training of an actor that died is claimed by another one when its lease has expired.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from types import ModuleType

from fastapi import FastAPI

from ..errors import MissingExtraError, UsageError
from ..processes import LOOPBACK, exclusive_folder, free_port, interruptible, is_loopback, usable_cores
from ..ray_cluster import connect, import_ray
from .app import create_app
from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .server import ServerConfig, default_user_token, with_admin
from .store import JsonObject, Store
from .supervisor import Report

NAME = "filmtransfer"
MAX_REQUESTS = 1000  # of one replica, event streams included; the limits of the service are lower
GRACE_SECONDS = 5  # for replicas and workers when the service ends
EXIT_SECONDS = 30.0  # after which the process ends in any case
EXTRA = "scale"  # of this package, with Ray Serve


def build_app(config: ServerConfig) -> FastAPI:
    """Return the application, in the process of a replica."""
    engine = Engine.open(config.backbone, config.weights, threads=1, runtime=config.runtime)
    store = Store.open(config.location)
    return create_app(store, engine, Batcher(engine), Cache(config.cache_mb), config.settings, config.weights)


def serve_on_ray(
    config: ServerConfig,
    address: str,
    replicas: int,
    report: Report,
    on_ready: Callable[[JsonObject], None],
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    config.listen.check()
    check_options(config, address)
    with exclusive_folder(config.folder, "fit serve"), ExitStack() as stack:
        with closing(Store.open(config.location)) as store:
            settings, token = with_admin(config), default_user_token(store, config.folder)
        # The processes of the cluster have other working folders.
        folder, weights = config.folder.expanduser().absolute(), config.weights and config.weights.absolute()
        replica = replace(config, folder=folder, weights=weights, settings=settings)
        # If Ray's processes end before this one, Ray would wait for them.
        timer = threading.Timer(EXIT_SECONDS, os._exit, (0,))
        timer.daemon = True
        stack.callback(timer.cancel)
        report(f"Starting {replicas} replicas of {config.backbone} on Ray …")
        stack.enter_context(cluster(address, replicas + config.workers))
        stack.enter_context(interruptible())  # after Ray, which installs its own signal handlers
        port = config.listen.port or free_port()
        stack.enter_context(running_replicas(replica, replicas, port))
        stack.enter_context(running_workers(replica, config.workers))
        on_ready(config.describe(f"http://{LOOPBACK}:{port}/", token))
        stack.callback(timer.start)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            report("Ending …")


def check_options(config: ServerConfig, address: str) -> None:
    """Refuse what cannot work before anything is started."""
    if not is_loopback(config.listen.host) or config.listen.certificate:
        raise UsageError(
            "On Ray the service listens on this machine only.",
            "Put a reverse proxy with TLS before it (docs/scale.md).",
        )
    if address != "local" and config.location.database.startswith("sqlite"):
        raise UsageError(
            "The machines of a cluster cannot share a SQLite file.",
            "Give --database postgresql://… and --objects, or use --ray local.",
        )


@contextmanager
def cluster(address: str, processes: int) -> Iterator[None]:
    """Connect to a cluster, or start one on this machine; check that it has a CPU for each process."""
    options: JsonObject = {}
    if address == "local":  # its ports are open to the network, so a token protects them
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
        options = {"num_cpus": max(usable_cores(), processes + 1), "include_dashboard": False}
    _import_serve()  # an error is raised before anything is started
    ray = connect(address, EXTRA, "--ray local", **options)
    try:
        cpus = int(ray.cluster_resources().get("CPU", 0))
        if cpus < processes:
            raise UsageError(
                f"{processes} replicas and workers need a CPU each, but the Ray cluster has {cpus}.",
                "Choose fewer --replicas or --workers, or add machines.",
            )
        yield
    finally:
        ray.shutdown()


@contextmanager
def running_replicas(config: ServerConfig, replicas: int, port: int) -> Iterator[None]:
    """Run the application on Ray Serve."""
    serve = _import_serve()
    from ray.serve.config import HTTPOptions, ProxyLocation
    from ray.serve.schema import LoggingConfig

    logging_config = LoggingConfig(log_level="WARNING", enable_access_log=False)
    deployment = serve.deployment(
        name=NAME,
        num_replicas=replicas,
        max_ongoing_requests=MAX_REQUESTS,
        ray_actor_options={"num_cpus": 1},
        graceful_shutdown_timeout_s=GRACE_SECONDS,
        logging_config=logging_config,
    )(serve.ingress(lambda: build_app(config))())
    serve.start(
        proxy_location=ProxyLocation.HeadOnly,
        http_options=HTTPOptions(host=LOOPBACK, port=port),
        logging_config=logging_config,
    )
    try:
        serve.run(deployment.bind(), name=NAME, route_prefix="/")
        yield
    finally:
        serve.delete(NAME)
        if not serve.status().applications:
            serve.shutdown()


@contextmanager
def running_workers(config: ServerConfig, count: int) -> Iterator[None]:
    """Run workers as actors; Ray restarts one that dies."""
    from .ray_worker import TrainingActor  # here, because it imports torch, which the replicas do not need

    ray = import_ray(EXTRA)
    actor_class = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1, max_concurrency=2)(
        TrainingActor
    )
    actors = [actor_class.remote(config) for _ in range(count)]
    for actor in actors:
        actor.run.remote()
    try:
        yield
    finally:
        stopped = [actor.stop.remote() for actor in actors]
        if stopped:
            ray.wait(stopped, num_returns=count, timeout=GRACE_SECONDS)


def _import_serve() -> ModuleType:
    import_ray(EXTRA)  # sets its environment variables
    try:
        from ray import serve
    except ImportError:
        raise MissingExtraError("--ray", EXTRA) from None
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    return serve
