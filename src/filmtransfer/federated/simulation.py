"""A whole federation on one machine: in this process, or on Flower's own engine; the same numbers either way."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ..errors import UsageError, invalid_choice
from .app import make_client_app
from .checkpoint import Checkpoint
from .client import Client
from .client_population import ClientPopulation, ReadImages, SimulationConfig
from .grid import InProcessGrid
from .parameters import make_model
from .plan import Plan
from .server import FederatedServer, Say

ENGINES = ("inprocess", "flower")


@dataclass(frozen=True)
class SimulationResult:
    """How a federation ended."""

    state: Checkpoint
    server: FederatedServer
    population: ClientPopulation


def simulate(
    scene: SimulationConfig,
    plan: Plan,
    read_images: ReadImages,
    *,
    folder: Path | None = None,
    engine: str = "inprocess",
    say: Say = lambda _: None,
    watch: Callable[[dict[str, Any]], None] = lambda _: None,
) -> SimulationResult:
    """All rounds; with a folder they are kept, and a federation that was killed goes on."""
    if engine not in ENGINES:
        raise invalid_choice("The engine", engine, ENGINES)
    population = ClientPopulation(scene, plan, read_images, folder / "clients" if folder else None)
    if len(population) < plan.clients_per_round:
        raise UsageError(
            f"There are {len(population)} clients, and a round takes {plan.clients_per_round}.",
            "Lower clients_per_round, or take more clients.",
        )

    def serve(grid: Grid) -> FederatedServer:
        return FederatedServer(
            grid,
            plan,
            lambda classes: make_model(plan, classes, backbone=population.model.backbone),
            folder=folder,
            evaluate=population.evaluate,
            say=say,
            watch=watch,
        )

    if engine == "inprocess":
        server = serve(InProcessGrid(len(population), population.client))
        return SimulationResult(server.run(), server, population)
    return _on_flower(serve, population, read_images)


def _on_flower(
    serve: Callable[[Grid], FederatedServer], population: ClientPopulation, read_images: ReadImages
) -> SimulationResult:
    """Flower's simulation: clients as Ray actors, each with a model of its own."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    made: list[SimulationResult] = []
    failed: list[BaseException] = []
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        try:
            server = serve(grid)
            made.append(SimulationResult(server.run(), server, population))
        except BaseException as error:  # raised here it would only be logged, in another thread
            failed.append(error)

    spec = (
        tuple(asdict(population.scene).items()), population.plan.to_json(), read_images, str(population.state or ""),
    )  # fmt: skip

    def client_for(context: Context, _: Plan) -> Client:
        return _population(*spec).client(int(context.node_config["partition-id"]))

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
    if failed:
        raise failed[0]
    return made[0]


@lru_cache(maxsize=1)
def _population(
    scene: tuple[tuple[str, Any], ...], plan: str, read_images: ReadImages, state: str
) -> ClientPopulation:
    """Return the population of a Ray actor: it is loaded for the actor's first client and kept for the others."""
    return ClientPopulation(
        SimulationConfig(**dict(scene)), Plan.from_json(plan), read_images, Path(state) if state else None
    )
