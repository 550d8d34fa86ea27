"""A complete federation on one machine: in this process, or on Flower's simulation engine, with equal results up to rounding."""

from __future__ import annotations

import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FrameType
from typing import TypeVar

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ..errors import UsageError, check_choice
from ..formatting import count
from ..model import Update
from .app import make_client_app
from .checkpoint import Checkpoint
from .client import Client
from .client_population import ClientPopulation, ReadImages, SimulationConfig
from .completion import complete
from .grid import InProcessGrid
from .parameters import make_model
from .plan import Plan
from .records import Observer
from .server import FederatedServer

T = TypeVar("T")
ENGINES = ("inprocess", "flower")


@dataclass(frozen=True)
class SimulationResult:
    """The final state of a simulated federation, with its server and clients."""

    state: Checkpoint
    server: FederatedServer
    population: ClientPopulation
    update: Update | None = None  # the classifier over all classes


def simulate(
    config: SimulationConfig,
    plan: Plan,
    read_images: ReadImages,
    *,
    folder: Path | None = None,
    engine: str = "inprocess",
    with_classifier: bool = False,
    observer: Observer | None = None,
) -> SimulationResult:
    """Run all rounds; with a folder they are saved, and an interrupted federation is resumed.

    ``with_classifier``: make the classifier over all classes at the end, where the head can be built from sums.
    """
    check_choice("The engine", engine, ENGINES)
    observer = observer or Observer()
    state_folder = folder / "clients" if folder else None
    population = ClientPopulation(config, plan, read_images, state_folder, observer.log)
    if len(population) < plan.clients_per_round:
        raise UsageError(
            f"A round of {count(plan.clients_per_round, 'client')} is not possible with {len(population)}.",
            "Lower clients_per_round, or use more clients.",
        )

    def make_server(grid: Grid) -> FederatedServer:
        return FederatedServer(
            grid,
            plan,
            lambda classes: make_model(plan, classes, backbone=population.model.backbone),
            folder=folder,
            evaluate_fn=population.evaluate,
            log=observer.log,
            on_round=observer.on_round,
            on_status=observer.on_status,
        )

    def run(grid: Grid) -> SimulationResult:
        server = make_server(grid)
        state = server.run()
        update = complete(server, state) if with_classifier and plan.trained_by == "episodes" else None
        return SimulationResult(state, server, population, update)

    if engine == "inprocess":
        return run(InProcessGrid(len(population), population.client))
    return _simulate_on_flower(run, population, read_images)


def _simulate_on_flower(
    run: Callable[[Grid], SimulationResult], population: ClientPopulation, read_images: ReadImages
) -> SimulationResult:
    """Run Flower's simulation: clients are Ray actors, each with a model of its own."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    results: list[SimulationResult] = []
    errors: list[BaseException] = []
    interrupted = threading.Event()
    app = ServerApp()

    @app.main()
    def main(grid: Grid, _: Context) -> None:
        try:
            results.append(run(stop_waiting(grid, interrupted)))
        except BaseException as error:  # Flower would only log it, in another thread
            errors.append(error)

    arguments = (population.config, population.plan, read_images, population.state)

    def client_for(context: Context, _: Plan) -> Client:
        return _actor_population(*arguments).client(int(context.node_config["partition-id"]))

    with warnings.catch_warnings(), noticing_interrupts(interrupted):
        warnings.simplefilter("ignore")
        run_simulation(
            server_app=app,
            client_app=make_client_app(client_for),
            num_supernodes=len(population),
            backend_config={
                "init_args": {
                    "include_dashboard": False,
                    "log_to_driver": False,
                    "logging_level": logging.ERROR,
                },
                "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            },
        )
    if errors:
        raise errors[0]
    return results[0]


def stop_waiting(grid: Grid, interrupted: threading.Event) -> Grid:
    """Let the grid raise KeyboardInterrupt instead of waiting for clients or replies once the event is set.

    Flower runs the server in a thread, which would wait for clients that Ctrl-C has ended, and the process with it.
    """
    for name in ("get_node_ids", "pull_messages"):
        setattr(grid, name, _unless(interrupted, getattr(grid, name)))
    return grid


def _unless(interrupted: threading.Event, method: Callable[..., T]) -> Callable[..., T]:
    def call(*arguments: object) -> T:
        if interrupted.is_set():
            raise KeyboardInterrupt
        return method(*arguments)

    return call


@contextmanager
def noticing_interrupts(interrupted: threading.Event) -> Iterator[None]:
    """Set the event at Ctrl-C and when the block ends; what Flower then logs about dead actors is not shown."""
    before = signal.getsignal(signal.SIGINT)
    in_main_thread = threading.current_thread() is threading.main_thread()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        logging.getLogger("flwr").setLevel(logging.CRITICAL + 1)
        if callable(before):
            before(number, frame)

    if in_main_thread and callable(before):
        signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield
    finally:
        interrupted.set()
        if in_main_thread and callable(before):
            signal.signal(signal.SIGINT, before)


@lru_cache(maxsize=1)
def _actor_population(
    config: SimulationConfig, plan: Plan, read_images: ReadImages, state: Path | None
) -> ClientPopulation:
    """Return the population of a Ray actor: loaded for the actor's first client, cached for the others."""
    return ClientPopulation(config, plan, read_images, state)
