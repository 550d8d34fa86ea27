"""``fit serve --ray``: the same application, as replicas on a Ray cluster; trainers are actors beside them.

Nothing is shared but the store, so it does not matter which replica a request meets. A replica that dies is replaced
by Ray; a training whose actor died is taken up by another when its lease has run out.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from fastapi import FastAPI

from ..backbones import load_backbone
from ..errors import MissingExtraError, UnavailableError, UsageError
from ..processes import LOOPBACK, exclusive_folder, free_port, interruptible, is_loopback
from ..training.torch_settings import prepare, usable_cores
from .app import create_app
from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .run import ADMIN, Plan, Say, admin_token, own_token, place
from .settings import Settings, hash_token
from .store import Place, Store
from .worker import Worker

NAME = "filmtransfer"
AT_ONCE = 1000  # requests of one replica, event streams included; what is too much is refused further in
GOODBYE = 5.0  # seconds for answers that are under way
LATEST = 30.0  # seconds after which it ends in any case


@dataclass(frozen=True)
class Task:
    """What a process of the cluster needs to be a part of the service."""

    place: Place
    backbone: str
    weights: str | None
    cache_mb: int
    lease: float
    settings: Settings


class Trainer:
    """An actor that trains."""

    def __init__(self, task: Task) -> None:
        prepare(1)
        store = Store.open(task.place.database, task.place.objects)
        backbone = load_backbone(task.backbone, task.weights)
        self.worker = Worker(store, backbone, lease=task.lease)

    def run(self) -> None:
        self.worker.run()

    def stop(self) -> None:
        """What is being trained is given back."""
        self.worker.stop()


def build(task: Task) -> FastAPI:
    """The application, in a replica's process."""
    prepare(1)
    store = Store.open(task.place.database, task.place.objects)
    engine = Engine(load_backbone(task.backbone, task.weights))
    return create_app(store, engine, Batcher(engine), Cache(task.cache_mb), task.settings)


def serve_on_ray(
    plan: Plan, address: str, replicas: int, say: Say, ready: Callable[[dict[str, Any]], None]
) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    plan.listen.check()
    where = place(plan)
    check(plan, where, address)
    with exclusive_folder(plan.folder, "fit serve"), ExitStack() as stack:
        with closing(Store.open(where.database, where.objects)) as store:
            admin, link_token = admin_token(plan), own_token(store, plan.folder)
        task = Task(
            where,
            plan.backbone,
            str(plan.weights.absolute()) if plan.weights else None,
            plan.cache_mb,
            plan.lease,
            replace(plan.settings, admin=hash_token(admin)),
        )
        late = threading.Timer(
            LATEST, os._exit, (0,)
        )  # if Ray's processes went before us it would wait for them
        late.daemon = True
        stack.callback(late.cancel)
        say(f"Starting {replicas} replicas of {plan.backbone} on Ray …")
        stack.enter_context(cluster(address, replicas + plan.workers))
        stack.enter_context(interruptible())  # after Ray, which has ideas of its own about signals
        port = plan.listen.port or free_port()
        stack.enter_context(running(task, replicas, port))
        stack.enter_context(trainers(task, plan.workers))
        url = f"http://{LOOPBACK}:{port}/"
        ready(
            {
                "url": url,
                "link": f"{url}#token={link_token}" if link_token else url,
                "token": link_token,
                "pid": os.getpid(),
                "folder": str(plan.folder),
                "admin_token_file": str(plan.admin_token_file or plan.folder / ADMIN),
            }
        )
        stack.callback(late.start)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            say("Ending …")


def check(plan: Plan, where: Place, address: str) -> None:
    """What cannot work is said before anything is started."""
    if not is_loopback(plan.listen.host) or plan.listen.certificate:
        raise UsageError(
            "On Ray the service listens on this machine only.",
            "Put a reverse proxy with TLS before it (docs/scale.md).",
        )
    if address != "local" and where.database.startswith("sqlite"):
        raise UsageError(
            "The machines of a cluster cannot share a SQLite file.",
            "Give --database postgresql://… and --objects, or use --ray local.",
        )


@contextmanager
def cluster(address: str, processes: int) -> Iterator[None]:
    """A cluster that is there, or one of our own on this machine."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or it speaks of its future
    if address == "local":  # its ports are open to the network: only who knows the token may use them
        os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))
    ray: Any = _imported()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address == "local":
            ray.init(
                address="local",
                num_cpus=max(usable_cores(), processes + 1),
                include_dashboard=False,
                **quiet,
            )
        else:
            _knock(address)
            ray.init(address=address, **quiet)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise UnavailableError(
            f"There is no Ray cluster at {address} ({str(error).splitlines()[0]}).",
            "Start one with 'ray start --head', or use --ray local.",
        ) from None
    try:
        have = int(ray.cluster_resources().get("CPU", 0))
        if have < processes:
            raise UsageError(
                f"{processes} replicas and workers want a CPU each, and the Ray cluster has {have}.",
                "Choose fewer --replicas or --workers, or add machines.",
            )
        yield
    finally:
        ray.shutdown()


@contextmanager
def running(task: Task, replicas: int, port: int) -> Iterator[None]:
    """The application on Ray Serve."""
    serve: Any = _imported().serve
    from ray.serve.config import HTTPOptions, ProxyLocation
    from ray.serve.schema import LoggingConfig

    def made() -> FastAPI:
        return build(task)

    quiet = LoggingConfig(log_level="WARNING", enable_access_log=False)
    deployment = serve.deployment(
        name=NAME,
        num_replicas=replicas,
        max_ongoing_requests=AT_ONCE,
        ray_actor_options={"num_cpus": 1},
        graceful_shutdown_timeout_s=GOODBYE,
        logging_config=quiet,
    )(serve.ingress(made)())
    serve.start(
        proxy_location=ProxyLocation.HeadOnly,
        http_options=HTTPOptions(host=LOOPBACK, port=port),
        logging_config=quiet,
    )
    try:
        serve.run(deployment.bind(), name=NAME, route_prefix="/")
        yield
    finally:
        serve.delete(NAME)
        if not serve.status().applications:
            serve.shutdown()


@contextmanager
def trainers(task: Task, count: int) -> Iterator[None]:
    """So many actors that train; one that dies is started again by Ray."""
    ray = _imported()
    kind = ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=-1, max_concurrency=2)(Trainer)
    actors = [kind.remote(task) for _ in range(count)]
    for actor in actors:
        actor.run.remote()
    try:
        yield
    finally:
        said = [actor.stop.remote() for actor in actors]
        if said:
            ray.wait(said, num_returns=count, timeout=GOODBYE)


def _imported() -> Any:
    try:
        import ray
        from ray import serve
    except ImportError:
        raise MissingExtraError("--ray", "scale") from None
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    del serve
    return ray


def _knock(address: str) -> None:
    """Find out at once whether anybody is there; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()
