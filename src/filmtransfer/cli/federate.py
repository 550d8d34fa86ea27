"""fit federate simulate | keys | server | client"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError, check_count
from ..formatting import count, file_size, percent
from . import federate_deploy
from .federate_status import observing
from .printing import Json, Printer, Threads, command_group
from .settings import read_settings

if TYPE_CHECKING:
    from ..federated.checkpoint import Checkpoint
    from ..federated.plan import Plan
    from ..federated.records import RoundRecord
    from ..federated.simulation import SimulationResult

app = command_group(
    "Federated learning: train together without sending images; only FiLM parameters and sums are sent."
)
app.command("keys")(federate_deploy.keys)
app.command("server")(federate_deploy.server)
app.command("client")(federate_deploy.client)


@app.command("simulate")
def simulate(
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            "-o",
            help="Folder for rounds, classifier and figure; an interrupted federation is resumed.",
        ),
    ] = Path("federation"),
    dataset: Annotated[
        str, typer.Option(help="A data set of --data-root, or 'sample', which is included.")
    ] = "sample",
    root: Annotated[Path, typer.Option("--data-root", help="The folder of the data sets.")] = Path("data"),
    folders: Annotated[
        Path | None,
        typer.Option(help="Your own images instead, in FOLDERS/train/CLIENT/CLASS and FOLDERS/test/CLASS."),
    ] = None,
    clients: Annotated[int, typer.Option(help="Number of clients.")] = 10,
    ways: Annotated[int, typer.Option(help="Classes of each client.")] = 5,
    shots: Annotated[int, typer.Option(help="Images of each of its classes.")] = 5,
    dirichlet: Annotated[
        float | None,
        typer.Option(
            help="Partition all images by a Dirichlet distribution with this α, instead of ways and shots."
        ),
    ] = None,
    classes: Annotated[
        int, typer.Option(help="Number of classes of the data set, drawn at random; 0: all.")
    ] = 0,
    test_images: Annotated[int, typer.Option(help="Number of test images, drawn at random; 0: all.")] = 0,
    preset: Annotated[
        str, typer.Option(help="small, or one of the paper's: cifar100, quickdraw, released, bit.")
    ] = "small",
    rounds: Annotated[int | None, typer.Option(help="Number of rounds.")] = None,
    clients_per_round: Annotated[
        int | None,
        typer.Option(help="Clients of each round, drawn at random; 0: all. By default the preset's."),
    ] = None,
    head: federate_deploy.HeadName = None,
    algorithm: Annotated[
        str | None, typer.Option(help="fedavg, fedprox, trimmed_mean, median, krum or multikrum.")
    ] = None,
    compression: Annotated[str | None, typer.Option(help="none, float16 or int8.")] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Secure aggregation: the server can read only sums.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(
            help="Differential privacy with this budget ε; other settings as in --set 'privacy={noise=2.0}'."
        ),
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="Pretrained backbone; see 'fit backbones'.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file for the backbone.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all randomness; by default 0.")] = None,
    settings: federate_deploy.PlanSettings = None,
    engine: Annotated[
        str, typer.Option(help="inprocess, or flower: Flower's simulation on Ray.")
    ] = "inprocess",
    bounds: Annotated[
        int | None, typer.Option(help="Also train the lower and the upper bound, with this number of steps.")
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Simulate a federation on this machine: rounds, communication, and global and personalized accuracy."""
    federate_deploy.require_flower()
    from ..files import make_folder, write_atomically

    printer = Printer(as_json)
    for name, number, minimum in (
        ("clients", clients, 1), ("ways", ways, 1), ("shots", shots, 1), ("classes", classes, 0),
        ("test_images", test_images, 0), ("bounds", 0 if bounds is None else bounds, 0),
    ):  # fmt: skip
        check_count(name, number, minimum)
    options = {
        "rounds": rounds, "clients_per_round": clients_per_round, "head": head, "algorithm": algorithm,
        "compression": compression, "secure": secure or None, "backbone": backbone, "seed": seed,
    }  # fmt: skip
    chosen = read_settings(settings, "steps=5") | {k: v for k, v in options.items() if v is not None}
    if epsilon is not None:
        chosen["privacy"] = _with_epsilon(chosen.get("privacy", {}), epsilon)
    plan = _plan_for(preset, chosen, clients if folders is None else _count_folders(folders), out)
    make_folder(out, parents=True)
    printer.say("Importing Flower and torch.")
    from ..bench.federated_run import read_images
    from ..federated.bounds import lower_bound, upper_bound
    from ..federated.client_population import SimulationConfig
    from ..federated.simulation import simulate as run_simulation
    from ..training.torch_settings import configure_process

    config = SimulationConfig(
        dataset=str(folders) if folders else dataset, root=str(folders or root), clients=clients, ways=ways, shots=shots,
        partition="folders" if folders else "few_shot" if dirichlet is None else "dirichlet",
        alpha=0.5 if dirichlet is None else dirichlet, classes=classes, test_images=test_images, seed=plan.seed, weights=str(weights or ""),
    )  # fmt: skip
    configure_process(threads)
    with observing(printer, plan.rounds) as observer, _ending_at_once(printer, engine == "flower"):
        simulation = run_simulation(
            config, plan, read_images, folder=out, engine=engine, with_classifier=True, observer=observer
        )
    state, population = simulation.state, simulation.population
    summary: dict[str, object] = {
        "plan": plan.to_dict(), "scene": asdict(config), "rounds": [state.initial, *state.rounds], "folder": str(out),
        "updateable": len(state.psi), **_save_classifier(printer, simulation, out),
    }  # fmt: skip
    evaluations: dict[str, RoundRecord] = {}
    if bounds is not None:
        evaluations = {"lower": lower_bound(population, bounds), "upper": upper_bound(population, bounds)}
    _print_table(printer, state, evaluations)
    _draw_figure(printer, {**plan.to_dict(), **asdict(config)}, state, evaluations, out)
    summary |= evaluations
    write_atomically(out / "summary.json", json.dumps(summary, indent=2, sort_keys=True).encode())
    printer.document(summary)


@contextmanager
def _ending_at_once(printer: Printer, flower: bool) -> Iterator[None]:
    """End this process at Ctrl-C: threads of Flower may wait for Ray's actors, which have ended, without end."""
    try:
        yield
    except KeyboardInterrupt:
        if not flower:
            raise
        code = printer.failure("Interrupted.", "", 130)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _count_folders(folders: Path) -> int:
    """Return the number of clients of a folder; raise an error if it is not FOLDERS/train/CLIENT and FOLDERS/test."""
    for part in ("train", "test"):
        if not (folders / part).is_dir():
            raise InputError(
                f"There is no folder {folders / part}.",
                "Use FOLDERS/train/CLIENT/CLASS/… for the clients and FOLDERS/test/CLASS/… for test images.",
            )
    return sum(path.is_dir() and not path.name.startswith(".") for path in (folders / "train").iterdir())


def _save_classifier(printer: Printer, simulation: SimulationResult, out: Path) -> dict[str, object]:
    """Save the classifier over all classes, if there is one, and return what the summary tells about it."""
    from ..federated.records import GLOBAL_UPDATE

    update, path = simulation.update, out / GLOBAL_UPDATE
    if update is None:
        return {}
    stored = update.save(path)
    traffic = simulation.server.transport.traffic
    requests = [traffic[name] for name in ("statistics", "scores") if name in traffic]
    sent = sum(request["bytes_down"] + request["bytes_up"] for request in requests)
    printer.say(
        f"The classifier over all {len(update.classes)} classes: {path} ({file_size(stored)}); "
        f"the sums for it took {file_size(sent)}, once."
    )
    return {"bytes": stored, "temperature": update.temperature, "estimate": update.results.get("estimate")}


def _with_epsilon(privacy: object, epsilon: float) -> object:
    """Return the settings of privacy with this budget; the plan refuses what is no table."""
    return {**privacy, "epsilon": epsilon} if isinstance(privacy, dict) else privacy


def _plan_for(preset: str, chosen: Mapping[str, object], clients: int, out: Path) -> Plan:
    """Return the plan of a simulation of so many clients; raise an error if its privacy budget allows no round."""
    from ..federated.checkpoint import CHECKPOINT_FILE
    from ..federated.plan import named_plan
    from ..federated.privacy import Accountant

    plan = named_plan(preset).override(**chosen)
    if chosen.get("clients_per_round") is None and clients < plan.clients_per_round:
        plan = plan.override(clients_per_round=0, min_clients=min(plan.min_clients, clients))
    if plan.privacy and plan.rounds and not (out / CHECKPOINT_FILE).exists():
        Accountant.of(plan.privacy, clients, plan.clients_per_round).check_first_round()
    return plan


def _print_table(printer: Printer, state: Checkpoint, bounds: dict[str, RoundRecord]) -> None:
    """Print the accuracy before and after training and of the bounds, and the communication."""
    rows: list[tuple[str, RoundRecord]] = [("before the first round", state.initial)]
    evaluated = [record for record in state.rounds if "accuracy" in record]
    if evaluated:
        rows.append((f"after {count(state.done, 'round')}", evaluated[-1]))
    rows += [(f"{name} bound", evaluation) for name, evaluation in bounds.items()]
    printer.table(
        ["", "global", "personalized"],
        [
            [name, *(percent(r[key]) if key in r else "–" for key in ("accuracy", "personalized"))]
            for name, r in rows
        ],
        right=(1, 2),
    )
    down, up = (sum(record[name] for record in state.rounds) for name in ("bytes_down", "bytes_up"))
    parameters = sum(record["parameters_down"] + record["parameters_up"] for record in state.rounds)
    printer.say(f"Sent: {parameters:,} parameters; {file_size(down)} to the clients, {file_size(up)} back.")


def _draw_figure(
    printer: Printer,
    settings: dict[str, object],
    state: Checkpoint,
    bounds: dict[str, RoundRecord],
    out: Path,
) -> None:
    """Draw the accuracy against the communication, with the bounds."""
    from ..bench.federated_figures import communication
    from ..bench.federated_run import communication_curve
    from ..errors import MissingExtraError
    from ..files import write_atomically

    settings |= {"protocol": "federated", "method": "FiT", "bound": "federated"}
    rows: list[dict[str, object]] = [
        {"settings": settings, "result": {"curve": communication_curve(state), **record}}
        for record in state.rounds[-1:]
    ]
    rows += [{"settings": {**settings, "bound": name}, "result": bound} for name, bound in bounds.items()]
    try:
        image = communication(rows) if rows else None
    except MissingExtraError as error:
        printer.note(str(error))
        return
    if image:
        write_atomically(out / "communication.png", image)
        printer.say(f"Figure: {out / 'communication.png'}")
