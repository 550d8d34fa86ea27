"""The federation as a Flower app, which SuperLink, SuperNodes and Flower's simulation run."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ..data import LabelledImages, read_squares
from ..errors import FitError, InputError
from ..files import make_folder, write_atomically
from ..model import AdaptedModel
from ..training.finetune.activations import Activations
from . import messages
from .client import Client, Examples, respond
from .completion import complete, trained_clients
from .evaluation import ServerTest
from .masking import STAGES
from .parameters import get_parameters, make_model
from .partition import of_classes
from .plan import Plan
from .policy import PolicyGuard, Release, check_reply
from .records import (
    GLOBAL_UPDATE,
    LOG_FILE,
    RESULT_FILE,
    DeploymentResult,
    Log,
    Observer,
    append_json_line,
)
from .server import FederatedServer

CACHE_MB = 512


# Raises an error for a request that must not be answered, or returns what its reply may release.
Admit = Callable[[Context, str, Plan, RecordDict], Sequence[Release] | None]


def make_client_app(
    client_for: Callable[[Context, Plan], Client], admit: Admit = lambda *_: None
) -> ClientApp:
    """Return an app that passes every admitted message to the client of its context."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        request, message_type = message.content, message.metadata.message_type
        reason = ""  # that is sent: none that might depend on the images or name their files
        try:
            messages.check_content(request)
            plan = messages.read_plan(request)
            releases = admit(context, message_type, plan, request)
            reason = messages.UNSPECIFIED
            client = client_for(context, plan)
            reply = respond(client, message_type, request, context.state, context.node_id)
            if releases is not None:
                check_reply(releases, reply)
        except FitError as error:
            name = str(context.node_config.get("name", context.node_id))
            _client_log(str(context.node_config.get("state", "")))(f"The request is refused: {error}")
            reply = messages.make_reply(name, about={"refused": reason or str(error)})
        except Exception as error:  # Flower logs it here, and sends the text of the last error
            raise RuntimeError(messages.UNSPECIFIED) from error
        return Message(reply, reply_to=message)

    for message_type in (*messages.TYPES, *(messages.SECURE + stage for stage in STAGES)):
        kind, _, action = message_type.partition(".")
        getattr(app, kind)(action)(handle)
    return app


# In a deployment the SuperNode's configuration names the client's folder of images, and its policy.


def _admit(context: Context, message_type: str, plan: Plan, content: RecordDict) -> list[Release]:
    """Apply the policy of the client before its images are read, and keep its ledger."""
    config = context.node_config
    policy, digest = (str(config.get(name, "")) for name in ("policy", "policy_digest"))
    guard = PolicyGuard(Path(str(config["state"])), Path(policy) if policy else None, digest)
    return guard.admit(message_type, plan, content)


def _client_for(context: Context, plan: Plan) -> Client:
    config = context.node_config
    test, state, weights = (str(config.get(name, "")) for name in ("test", "state", "weights"))
    name = str(config.get("name", context.node_id))
    return _open_client(name, str(config["data"]), test, state, weights, plan)


def _client_log(state: str) -> Log:
    """Return what passes messages for the user to ``fit federate client``, by a file in the folder of its state."""

    def log(text: str) -> None:
        if state:
            append_json_line(Path(state) / LOG_FILE, {"message": text})

    return log


@lru_cache(maxsize=2)
def _open_client(name: str, data: str, test: str, state: str, weights: str, plan: Plan) -> Client:
    """Return the client of a folder; cached where Flower uses a process for more than one message."""
    if plan.trained_by == "batches":
        raise InputError(
            f"The {plan.head} head is federated in simulations only.",
            "Choose another head, such as protonets.",
        )
    model = make_model(plan, weights=weights or None)
    examples = read_examples(LabelledImages.from_path(data), model)
    test_examples = None
    if test and (images := of_classes(LabelledImages.from_path(test), examples.classes)).sources:
        test_examples = read_examples(images, model, every_class=False)
    folder = Path(state) if state else None
    return Client(name, model, examples, get_parameters(model), test_examples, folder, _client_log(state))


def read_examples(images: LabelledImages, model: AdaptedModel, *, every_class: bool = True) -> Examples:
    """Read the images, without those that cannot be decoded; ``every_class``: each must keep at least one."""
    squares, skipped = read_squares(images.sources, model.pixels, images.names())
    kept = [i for i, square in enumerate(squares) if square is not None]
    if not kept:
        first = f" (the first: {skipped[0].name}: {skipped[0].reason})" if skipped else ""
        raise InputError(f"None of the images can be read{first}.", "Replace them.")
    labels = torch.tensor([images.labels[i] for i in kept])
    empty = [str(name) for c, name in enumerate(images.classes) if not bool((labels == c).any())]
    if every_class and empty:
        raise InputError(f"No image of {', '.join(empty)} can be read.", "Replace them, or remove the class.")
    pixels = torch.from_numpy(np.stack([square for square in squares if square is not None]))
    return Examples(Activations(model, pixels, CACHE_MB), labels, [str(name) for name in images.classes])


client_app = make_client_app(_client_for, _admit)
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Run the federation; its messages and its result are written to files."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    config = context.run_config
    plan, folder = Plan.from_json(str(config["plan"])), Path(str(config["folder"]))
    test, weights = str(config.get("test", "")), str(config.get("weights", ""))
    make_folder(folder, parents=True)

    def write(line: dict[str, object]) -> None:
        append_json_line(folder / LOG_FILE, line)

    observer = Observer(
        log=lambda text: write({"message": text}),
        on_round=lambda record: write({"round": record}),
        on_status=lambda text: write({"status": text}),
        on_names=lambda names: write({"names": {str(node): name for node, name in names.items()}}),
    )
    result: DeploymentResult
    try:
        result = run_federation(grid, plan, folder, test, weights, observer)
    except FitError as error:
        result = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
    write_atomically(folder / RESULT_FILE, json.dumps(result, sort_keys=True).encode())


def run_federation(
    grid: Grid, plan: Plan, folder: Path, test: str, weights: str, observer: Observer
) -> DeploymentResult:
    """Run all rounds, save the global classifier, and let the clients save theirs."""
    on_status = observer.on_status
    on_status(f"Loading the backbone {plan.backbone}")
    server = FederatedServer(
        grid,
        plan,
        lambda classes: make_model(plan, classes, weights=weights or None),
        folder=folder,
        log=observer.log,
        on_round=observer.on_round,
        on_status=on_status,
        on_names=observer.on_names,
        max_wait=1e9,
    )
    if test:
        on_status("Reading the test images")
        images = LabelledImages.from_path(test)
        server.test = ServerTest(read_examples(images, server.model, every_class=False))
    state = server.run()
    update = complete(server, state)
    size = update.save(folder / GLOBAL_UPDATE)
    on_status("Saving the personalized classifiers")
    saved = server.finish(state.psi, trained_clients(state))
    result: DeploymentResult = {
        "rounds": state.done, "classes": [str(name) for name in update.classes], "bytes": size, "clients": sorted(saved),
        "traffic": server.transport.traffic, "temperature": update.temperature, "estimate": update.results.get("estimate"),
        "planned_rounds": plan.rounds, "assess": plan.assess, "test": test,
    }  # fmt: skip
    if server.test:
        accuracy, tested = server.test.accuracy(server.model, result["classes"])
        if tested:
            result |= {"accuracy": accuracy, "test_images": tested}
    return result
