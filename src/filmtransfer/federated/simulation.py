"""A complete federation on one machine: in this process, or on Flower's simulation engine, with the same results."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ..errors import UsageError, check_choice
from .app import make_client_app
from .checkpoint import Checkpoint
from .client import Client
from .client_population import ClientPopulation, ReadImages, SimulationConfig
from .grid import InProcessGrid
from .parameters import make_model
from .plan import Plan
from .records import Log, OnRound
from .server import FederatedServer

ENGINES = ("inprocess", "flower")


@dataclass(frozen=True)
class SimulationResult:
    """The final state of a simulated federation, with its server and clients."""

    state: Checkpoint
    server: FederatedServer
    population: ClientPopulation


def simulate(
    config: SimulationConfig,
    plan: Plan,
    read_images: ReadImages,
    *,
    folder: Path | None = None,
    engine: str = "inprocess",
    log: Log = lambda _: None,
    on_round: OnRound = lambda _: None,
) -> SimulationResult:
    """Run all rounds; with a folder they are saved, and an interrupted federation is resumed."""
    check_choice("The engine", engine, ENGINES)
    population = ClientPopulation(config, plan, read_images, folder / "clients" if folder else None)
    if len(population) < plan.clients_per_round:
        raise UsageError(
            f"There are {len(population)} clients, and a round needs {plan.clients_per_round}.",
            "Lower clients_per_round, or use more clients.",
        )

    def make_server(grid: Grid) -> FederatedServer:
        return FederatedServer(
            grid,
            plan,
            lambda classes: make_model(plan, classes, backbone=population.model.backbone),
            folder=folder,
            evaluate_fn=population.evaluate,
            log=log,
            on_round=on_round,
        )

    if engine == "inprocess":
        server = make_server(InProcessGrid(len(population), population.client))
        return SimulationResult(server.run(), server, population)
    return _simulate_on_flower(make_server, population, read_images)


def _simulate_on_flower(
    make_server: Callable[[Grid], FederatedServer], population: ClientPopulation, read_images: ReadImages
) -> SimulationResult:
    """Run Flower's simulation: clients are Ray actors, each with a model of its own."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    results: list[SimulationResult] = []
    errors: list[BaseException] = []
    app = ServerApp()

    @app.main()
    def main(grid: Grid, _: Context) -> None:
        try:
            server = make_server(grid)
            results.append(SimulationResult(server.run(), server, population))
        except BaseException as error:  # Flower would only log it, in another thread
            errors.append(error)

    arguments = (population.config, population.plan, read_images, population.state)

    def client_for(context: Context, _: Plan) -> Client:
        return _actor_population(*arguments).client(int(context.node_config["partition-id"]))

    with warnings.catch_warnings():
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


@lru_cache(maxsize=1)
def _actor_population(
    config: SimulationConfig, plan: Plan, read_images: ReadImages, state: Path | None
) -> ClientPopulation:
    """Return the population of a Ray actor: loaded for the actor's first client, cached for the others."""
    return ClientPopulation(config, plan, read_images, state)
