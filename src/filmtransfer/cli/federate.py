"""fit federate simulate | keys | server | client"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UsageError
from ..formatting import file_size, percent
from . import federate_deploy
from .printing import Json, Printer, Threads
from .settings import read_settings

app = typer.Typer(
    help="Learn together without sending images: only FiLM's numbers and sums travel.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.command("keys")(federate_deploy.keys)
app.command("server")(federate_deploy.server)
app.command("client")(federate_deploy.client)


@app.command("simulate")
def simulate(
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="Folder for rounds, classifier and figure; started again on it, it goes on."
        ),
    ] = Path("federation"),
    dataset: Annotated[
        str, typer.Option(help="A set of --data-root, or 'sample', which comes along.")
    ] = "sample",
    root: Annotated[Path, typer.Option("--data-root", help="The folder that holds the image sets.")] = Path(
        "data"
    ),
    folders: Annotated[
        Path | None,
        typer.Option(
            help="Images of your own instead: FOLDERS/train/CLIENT/CLASS/… and FOLDERS/test/CLASS/…"
        ),
    ] = None,
    clients: Annotated[int, typer.Option(help="How many clients.")] = 10,
    ways: Annotated[int, typer.Option(help="Classes of each client.")] = 5,
    shots: Annotated[int, typer.Option(help="Images of each of its classes.")] = 5,
    dirichlet: Annotated[
        float | None,
        typer.Option(help="Deal out all images by a Dirichlet law with this α, instead of ways and shots."),
    ] = None,
    classes: Annotated[
        int, typer.Option(help="Use so many classes of the set, drawn at random; 0: all.")
    ] = 0,
    test_images: Annotated[int, typer.Option(help="Try it on so many test images; 0: all.")] = 0,
    preset: Annotated[
        str, typer.Option(help="small, or one of the paper's: cifar100, quickdraw, released, bit.")
    ] = "small",
    rounds: Annotated[int | None, typer.Option(help="How many rounds.")] = None,
    clients_per_round: Annotated[int | None, typer.Option(help="How many clients in each.")] = None,
    head: Annotated[str | None, typer.Option(help="protonets or lda.")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="fedavg, fedprox, trimmed_mean, median, krum or multikrum.")
    ] = None,
    compression: Annotated[str | None, typer.Option(help="none, float16 or int8.")] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="Secure aggregation: only sums can be read.")
    ] = False,
    epsilon: Annotated[
        float | None,
        typer.Option(help="Differential privacy with this budget; more by --set 'privacy={noise=2.0}'."),
    ] = None,
    backbone: Annotated[str | None, typer.Option(help="Pretrained backbone; see 'fit backbones'.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights file for the backbone.")] = None,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="Any other setting of the plan, as in --set steps=5.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="inprocess, or flower: Flower's simulation on Ray.")
    ] = "inprocess",
    bounds: Annotated[
        int | None, typer.Option(help="Also train the lower and the upper bound, with so many steps.")
    ] = None,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Simulate a federation on this machine: rounds, costs, and the accuracy of both kinds of classifier."""
    federate_deploy.need_flower()
    from ..bench.federated_run import read_images
    from ..federated.bounds import lower, upper
    from ..federated.client_population import SimulationConfig
    from ..federated.global_classifier import global_update
    from ..federated.plan import named
    from ..federated.simulation import simulate as run_simulation
    from ..files import write_atomically
    from ..training.torch_settings import prepare

    printer = Printer(as_json)
    chosen = read_settings(settings, "steps=5")
    if epsilon is not None:
        said = chosen.get("privacy", {})
        if not isinstance(said, dict):
            raise UsageError(f"privacy cannot be {said!r}.", "As in --set 'privacy={noise=2.0, clip=0.5}'.")
        chosen["privacy"] = {**said, "epsilon": epsilon}
    plan = named(preset).with_choices(
        **{
            **chosen, "rounds": rounds, "clients_per_round": clients_per_round, "head": head, "algorithm": algorithm,
            "compression": compression, "secure": secure or None, "backbone": backbone, "seed": seed,
        }
    )  # fmt: skip
    scene = SimulationConfig(
        dataset=str(folders) if folders else dataset, root=str(folders or root), clients=clients, ways=ways, shots=shots,
        partition="folders" if folders else "few_shot" if dirichlet is None else "dirichlet",
        alpha=0.5 if dirichlet is None else dirichlet, classes=classes, test_images=test_images, seed=seed, weights=str(weights or ""),
    )  # fmt: skip
    prepare(threads)
    out.mkdir(parents=True, exist_ok=True)

    def watch(line: dict[str, Any]) -> None:
        printer.say(federate_deploy.round_line(line, plan.rounds))

    outcome = run_simulation(
        scene, plan, read_images, folder=out, engine=engine, say=printer.say, watch=watch
    )
    state, population = outcome.state, outcome.population
    printer.say(population.partition.describe() + ".")
    result: dict[str, Any] = {
        "plan": plan.to_dict(), "scene": asdict(scene), "rounds": [state.began, *state.rounds], "folder": str(out),
        "updateable": len(state.psi),
    }  # fmt: skip
    if engine == "inprocess" and plan.head != "linear":
        update = global_update(outcome.server.model, plan, state.psi, *outcome.server.statistics(state.psi))
        result["bytes"] = update.save(out / "global.safetensors")
        kept = outcome.server.talk.traffic["statistics"]
        printer.say(
            f"The classifier over all {len(update.classes)} classes: {out / 'global.safetensors'} ({file_size(result['bytes'])}); "
            f"its sums were {file_size(kept.up.bytes)} once."
        )
    if bounds is not None:
        result["lower"], result["upper"] = lower(population, bounds), upper(population, bounds)
    _table(printer, state, result)
    _figure(printer, scene, plan, state, result, out)
    write_atomically(out / "summary.json", json.dumps(result, indent=2, sort_keys=True).encode())
    printer.document(result)


def _table(printer: Printer, state: Any, result: dict[str, Any]) -> None:
    """Accuracy by setting, between the bounds where these were asked for; and what it cost."""
    rows = [("before the first round", state.began)]
    measured = [line for line in state.rounds if "accuracy" in line]
    if measured:
        rows.append((f"after {state.done} rounds", measured[-1]))
    rows += [(f"{word} bound", result[word]) for word in ("lower", "upper") if word in result]
    printer.table(
        ["", "global", "personalized"],
        [
            [name, *(percent(line[k]) if k in line else "–" for k in ("accuracy", "personalized"))]
            for name, line in rows
        ],
        right=(1, 2),
    )
    down, up = (sum(line[f"bytes_{way}"] for line in state.rounds) for way in ("down", "up"))
    numbers = sum(line["parameters_down"] + line["parameters_up"] for line in state.rounds)
    printer.say(f"Sent: {numbers:,} numbers; {file_size(down)} to the clients, {file_size(up)} back.")


def _figure(printer: Printer, scene: Any, plan: Any, state: Any, result: dict[str, Any], out: Path) -> None:
    """Accuracy against what was sent, with the bounds."""
    from ..bench.federated_figures import communication
    from ..bench.federated_run import curve_of
    from ..errors import MissingExtraError
    from ..files import write_atomically

    settings = {
        **plan.to_dict(),
        **asdict(scene),
        "protocol": "federated",
        "method": "FiT",
        "bound": "federated",
    }
    rows = (
        [{"settings": settings, "result": {"curve": curve_of(state), **state.rounds[-1]}}]
        if state.rounds
        else []
    )
    rows += [
        {"settings": {**settings, "bound": word}, "result": result[word]}
        for word in ("lower", "upper")
        if word in result
    ]
    try:
        drawn = communication(rows) if rows else None
    except MissingExtraError as error:
        printer.note(str(error))
        return
    if drawn:
        write_atomically(out / "communication.png", drawn)
        printer.say(f"Figure: {out / 'communication.png'}")
