"""A whole federation on one machine: in this process, or on Flower's own engine; the same numbers either way."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from ..errors import UsageError, choices
from .app import make_client_app
from .bounds import lower, upper
from .checkpoint import Checkpoint
from .client import Client
from .inprocess import InProcessGrid
from .numbers import make_model
from .plan import Plan, from_settings
from .population import Population, Scene
from .server import Say, Server

ENGINES = ("inprocess", "flower")
SENT = ("parameters", "bytes")
BOUNDS = ("federated", "lower", "upper")


@dataclass(frozen=True)
class Outcome:
    """How a federation ended."""

    state: Checkpoint
    server: Server
    population: Population


def simulate(
    scene: Scene,
    plan: Plan,
    *,
    folder: Path | None = None,
    engine: str = "inprocess",
    say: Say = lambda _: None,
    watch: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Outcome:
    """All rounds; with a folder they are kept, and a federation that was killed goes on."""
    if engine not in ENGINES:
        raise choices("The engine", engine, ENGINES)
    population = Population(scene, plan, folder / "clients" if folder else None)
    if len(population) < plan.clients_per_round:
        raise UsageError(
            f"There are {len(population)} clients, and a round takes {plan.clients_per_round}.",
            "Lower clients_per_round, or take more clients.",
        )

    def serve(grid: Grid) -> Server:
        return Server(
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
        return Outcome(server.run(), server, population)
    return _on_flower(scene, plan, folder, serve, population)


def _on_flower(
    scene: Scene, plan: Plan, folder: Path | None, serve: Callable[[Grid], Server], population: Population
) -> Outcome:
    """Flower's simulation: clients as Ray actors, each with a model of its own."""
    from flwr.simulation import run_simulation

    logging.getLogger("flwr").setLevel(logging.ERROR)
    made: list[Outcome] = []
    failed: list[BaseException] = []
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        del context
        try:
            server = serve(grid)
            made.append(Outcome(server.run(), server, population))
        except BaseException as error:  # raised here it would only be logged, in another thread
            failed.append(error)

    spec = (tuple(asdict(scene).items()), plan.to_json(), str(folder) if folder else "")

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
def _population(scene: tuple[tuple[str, Any], ...], plan: str, folder: str) -> Population:
    """In an actor: loaded for its first client, kept for the others."""
    return Population(
        Scene(**dict(scene)), Plan.from_json(plan), Path(folder) / "clients" if folder else None
    )


def run(settings: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """One run of a benchmark: a federation, or one of its bounds."""
    bound = str(settings.get("bound", "federated"))
    if bound not in BOUNDS:
        raise choices("The bound", bound, BOUNDS)
    names = {field.name for field in fields(Scene)}
    scene = Scene(**{**{k: v for k, v in settings.items() if k in names}, "root": str(root)})
    plan = from_settings(settings)
    began = time.monotonic()
    if bound != "federated":
        population = Population(scene, plan)
        if bound == "lower":
            found = lower(population, int(settings.get("bound_steps", plan.steps)))
        else:
            found = upper(
                population, int(settings.get("bound_steps_upper", settings.get("bound_steps", plan.steps)))
            )
        return found | _about(population, began)
    outcome = simulate(scene, plan)
    rounds = outcome.state.rounds
    last = next(line for line in reversed([outcome.state.began, *rounds]) if "accuracy" in line)
    curve = curve_of(outcome.state)
    sent = {
        what: sum(int(line[f"{what}_{way}"]) for line in rounds for way in ("down", "up")) for what in SENT
    }
    return {
        **{k: last[k] for k in ("accuracy", "personalized", "clients_accuracy") if k in last},
        "curve": curve,
        "parameters_per_round": sent["parameters"] // max(len(rounds), 1),
        "parameters": sent["parameters"],
        "bytes_up": sum(int(line["bytes_up"]) for line in rounds),
        "bytes_down": sum(int(line["bytes_down"]) for line in rounds),
        **_about(outcome.population, began),
    }


def curve_of(state: Checkpoint) -> list[dict[str, Any]]:
    """Accuracy by round, with what had been sent until then, both ways."""
    curve: list[dict[str, Any]] = []
    sent = dict.fromkeys(SENT, 0)
    for line in [state.began, *state.rounds]:
        for what in SENT:
            sent[what] += int(line.get(f"{what}_down", 0)) + int(line.get(f"{what}_up", 0))
        if "accuracy" in line:
            measured: dict[str, Any] = {k: line[k] for k in ("accuracy", "personalized") if k in line}
            curve.append({"round": line["round"], **measured, **sent})
    return curve


def _about(population: Population, began: float) -> dict[str, Any]:
    return {
        "updateable": int(np.size(population.start)),
        "images": int(sum(len(own) for own in population.partition.clients)),
        "test_images": len(population.test_labels),
        "seconds": round(time.monotonic() - began, 1),
        "partition": population.partition.describe(),
        "notes": [],
    }
