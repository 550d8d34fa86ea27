"""The federation as a Flower app: what SuperLink and SuperNodes run, and Flower's simulation too."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ..data import LabelledImages, read_squares
from ..errors import FitError, InputError
from ..estimator import FewShotClassifier
from ..files import write_atomically
from ..model import AdaptedModel
from ..training.finetune.activations import Activations
from . import messages
from .client import Client, Examples, respond
from .global_classifier import global_update
from .parameters import make_model, read
from .plan import Plan
from .server import FederatedServer

SAID = "said.jsonl"  # beside rounds.jsonl: what the server has to say to people, line by line
RESULT = "result.json"
CACHE_MB = 512


def make_client_app(client_for: Callable[[Context, Plan], Client]) -> ClientApp:
    """Every kind of message goes to the client that the context tells of."""
    app = ClientApp()

    def handle(message: Message, context: Context) -> Message:
        try:
            client = client_for(context, messages.plan_of(message.content))
        except FitError as error:
            name = str(context.node_config.get("name", context.node_id))
            return Message(messages.reply(name, refused=str(error)), reply_to=message)
        content = respond(
            client, message.metadata.message_type, message.content, context.state, context.node_id
        )
        return Message(content, reply_to=message)

    for kind in (messages.DESCRIBE, messages.STATISTICS, messages.FINISH):
        app.query(kind.partition(".")[2])(handle)
    for stage in ("keys", "shares", "masked", "unmask"):
        app.query((messages.SECURE + stage).partition(".")[2])(handle)
    app.train(messages.ROUND.partition(".")[2])(handle)
    app.evaluate(messages.EVALUATE.partition(".")[2])(handle)
    return app


# In deployment: a folder of images for each client, told by the SuperNode's configuration.


def _client(context: Context, plan: Plan) -> Client:
    config = context.node_config
    return _open(
        str(config.get("name", context.node_id)),
        str(config["data"]),
        str(config.get("test", "")),
        str(config.get("state", "")),
        str(config.get("weights", "")),
        plan.to_json(),
    )


@lru_cache(maxsize=2)
def _open(name: str, data: str, test: str, state: str, weights: str, plan_text: str) -> Client:
    """The client of a folder; kept, where Flower lets a process live for more than one message."""
    plan = Plan.from_json(plan_text)
    if plan.head == "linear":
        raise InputError("BiT is federated in simulations only.", "Choose protonets or lda.")
    model = make_model(plan, weights=weights or None)
    examples = read_examples(LabelledImages.from_path(data), model)
    tried = None
    if test:
        found = LabelledImages.from_path(test)
        place = {name: c for c, name in enumerate(examples.classes)}
        own = [i for i, label in enumerate(found.labels) if str(found.classes[label]) in place]
        tried = read_examples(
            LabelledImages(
                [found.sources[i] for i in own],
                [place[str(found.classes[found.labels[i]])] for i in own],
                list(examples.classes),
            ),
            model,
        )
    return Client(name, model, examples, start=read(model), test=tried, state=Path(state) if state else None)


def read_examples(images: LabelledImages, model: AdaptedModel) -> Examples:
    """What can be read of them; a class of which nothing can is an error."""
    squares, skipped = read_squares(images.sources, model.pixels, images.names())
    kept = [i for i, square in enumerate(squares) if square is not None]
    if not kept:
        first = f" (the first: {skipped[0].name}: {skipped[0].reason})" if skipped else ""
        raise InputError(f"None of the images can be read{first}.", "Replace them.")
    labels = torch.tensor([images.labels[i] for i in kept])
    if lost := [str(name) for c, name in enumerate(images.classes) if not bool((labels == c).any())]:
        raise InputError(f"No image of {', '.join(lost)} can be read.", "Replace them, or remove the class.")
    pixels = torch.stack([square for square in squares if square is not None])
    return Examples(Activations(model, pixels, CACHE_MB), labels, [str(name) for name in images.classes])


client_app = make_client_app(_client)
server_app = ServerApp()


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """All rounds, the global classifier, and the clients' own; what there is to say goes to files."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    config = context.run_config
    plan, folder = Plan.from_json(str(config["plan"])), Path(str(config["folder"]))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / SAID).open("a", encoding="utf-8") as said:

        def say(text: str) -> None:
            said.write(json.dumps({"said": text}) + "\n")
            said.flush()

        result: dict[str, Any]
        try:
            result = deploy(
                grid, plan, folder, str(config.get("test", "")), str(config.get("weights", "")), say
            )
        except FitError as error:
            result = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
        write_atomically(folder / RESULT, json.dumps(result, sort_keys=True).encode())


def deploy(
    grid: Grid, plan: Plan, folder: Path, test: str, weights: str, say: Callable[[str], None]
) -> dict[str, Any]:
    server = FederatedServer(
        grid, plan, lambda classes: make_model(plan, classes, weights=weights or None), folder=folder, say=say, wait=1e9
    )  # fmt: skip
    state = server.run()
    update = global_update(server.model, plan, state.psi, *server.statistics(state.psi))
    size = update.save(folder / "global.safetensors")
    kept = server.finish(state.psi)
    result: dict[str, Any] = {
        "rounds": state.done, "classes": update.classes, "bytes": size, "clients": sorted(kept),
        "traffic": {name: traffic.line() for name, traffic in server.talk.traffic.items()},
    }  # fmt: skip
    if test:
        result |= _try(
            FewShotClassifier.load(folder / "global.safetensors", backbone=server.model.backbone), test
        )
    return result


def _try(classifier: FewShotClassifier, test: str) -> dict[str, float]:
    """Accuracy on the test images of classes that the federation has."""
    tried = LabelledImages.from_path(test)
    names = [str(tried.classes[label]) for label in tried.labels]
    known = [i for i, name in enumerate(names) if name in set(classifier.classes_)]
    if not known:
        return {}
    found = classifier.classify([tried.sources[i] for i in known])
    predicted = classifier.classes_[found.probabilities.argmax(1)]
    right = [guess == names[known[i]] for guess, i in zip(predicted, found.readable, strict=True)]
    return {"accuracy": sum(right) / len(right)}
