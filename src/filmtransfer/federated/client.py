"""A client: fine-tune from the global ψ, sum statistics, evaluate and save the personalized classifier.

Of its images it sends only ψ after its local steps and, on request, n_c, Σz and Σzzᵀ. All randomness is determined by
the plan's seed, the client's name and the round, and each round has a new optimizer: a round can be repeated exactly.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from flwr.app import RecordDict
from torch import Tensor

from ..errors import FitError, InputError
from ..files import make_folder, write_atomically
from ..heads import Statistics
from ..model import AdaptedModel, FeaturePredictor
from ..seeding import make_generator
from ..training.assess.evaluation import evaluate
from ..training.baselines.batch import ConstantSchedule, train_batches
from ..training.finetune.activations import Activations
from ..training.finetune.episodic import finetune
from . import messages
from .compression import compress, decompress
from .global_classifier import make_update
from .masking import handle_message
from .messages import ConfigValue
from .parameters import get_parameters, parameter_layout, set_parameters
from .plan import Plan
from .privacy import clip
from .records import PERSONAL_UPDATE
from .statistics import to_arrays

RESIDUALS_FILE = "owed.npz"


@dataclass
class Examples:
    """Labelled images as activations of the model; labels index the classes."""

    embed: Activations
    labels: Tensor
    classes: list[str]

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(eq=False)
class Client:
    """A client's images, and a model to work with (in a simulation one for all clients)."""

    name: str
    model: AdaptedModel
    examples: Examples
    start: np.ndarray  # the model's parameters before the first round
    test: Examples | None = None
    state: Path | None = None  # the folder for what the client keeps between rounds

    def __post_init__(self) -> None:
        self.sizes = parameter_layout(self.model).sizes

    def handle(self, message_type: str, content: RecordDict, state: RecordDict, node: int) -> RecordDict:
        """Return the reply to a request; ``state`` is what Flower keeps for this client between messages."""
        plan = messages.read_plan(content)
        if message_type == messages.DESCRIBE:
            return messages.make_reply(self.name, about=self.describe())
        if message_type == messages.TRAIN:
            arrays, metrics = self.train_round(
                plan, messages.read_round(content), messages.read_arrays(content)
            )
            return messages.make_reply(self.name, arrays, metrics)
        if message_type == messages.STATISTICS:
            self.receive(plan, messages.read_arrays(content))
            classes = messages.read_strings(messages.read_config(content), "classes")
            return messages.make_reply(self.name, to_arrays(self.statistics(classes, plan)))
        if message_type == messages.EVALUATE:
            self.receive(plan, messages.read_arrays(content))
            return messages.make_reply(self.name, metrics=self.evaluate())
        if message_type == messages.FINISH:
            self.receive(plan, messages.read_arrays(content))
            return messages.make_reply(self.name, about={"saved": self.save(plan)})
        if message_type.startswith(messages.SECURE):
            stage = message_type.removeprefix(messages.SECURE)
            reply = handle_message(stage, content, state, self.compute, node)
            reply["about"] = messages.make_reply(self.name)["about"]
            return reply
        raise InputError(
            f"{self.name} does not know the message {message_type}.", "Use the same version as the server."
        )

    def describe(self) -> dict[str, ConfigValue]:
        """Return the client's classes, numbers of images and configuration: nothing about single images."""
        backbone = self.model.backbone
        return {
            "classes": self.examples.classes,
            "counts": torch.bincount(self.examples.labels, minlength=len(self.examples.classes)).tolist(),
            "backbone": backbone.name,
            "digest": backbone.digest,
            "pixels": json.dumps(asdict(self.model.pixels), sort_keys=True),
            "layout": parameter_layout(self.model).digest,
            "tests": 0 if self.test is None else len(self.test),
        }

    # Training

    def receive(self, plan: Plan, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """Decompress the received ψ, set it in the model and return it."""
        received = decompress(arrays, plan.compression, self.sizes)
        if plan.compression != "none":
            received = self.start + received
        set_parameters(self.model, received)
        return received

    def train_round(
        self, plan: Plan, server_round: int, arrays: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Train from the received ψ; return ψ or its compressed update, and the metrics."""
        received = self.receive(plan, arrays)
        metrics = self.train(plan, server_round)
        trained = get_parameters(self.model)
        if plan.compression == "none":
            return compress(trained, "none", self.sizes), metrics
        update = trained - received + self._previous_residual(server_round)
        compressed = compress(update, plan.compression, self.sizes)
        self._save_residual(server_round, update - decompress(compressed, plan.compression, self.sizes))
        return compressed, metrics

    def train(self, plan: Plan, server_round: int) -> dict[str, float]:
        """Run the local steps from the model's current parameters; refuse if episodes are not possible."""
        training = plan.training_config(server_round).resolve(self.model.backbone, len(self.examples))
        seed = make_generator(plan.seed, "client", self.name, server_round).initial_seed()
        proximal_mu = plan.mu if plan.algorithm == "fedprox" else 0.0
        images, labels = self.examples.embed, self.examples.labels
        if plan.trained_by == "batches":
            rule = ConstantSchedule(
                training.steps or 0, training.learning_rate, training.batch, training.weight_decay
            )
            history = train_batches(
                self.model, images, labels, rule, training, seed=seed, proximal_mu=proximal_mu
            )
        elif len(torch.unique(labels)) < 2:
            raise InputError(f"{self.name} has images of one class only: training needs at least two.")
        else:
            history = finetune(self.model, images, labels, training, seed=seed, proximal_mu=proximal_mu)
            if history.stopped == "one-shot":
                raise InputError(f"{self.name} has one image of each class: an episode needs a second one.")
        loss = history.losses[-1] if history.losses else float("nan")
        return {"num-examples": len(self.examples), "loss": loss, "steps": history.steps}

    def compute(self, work: RecordDict) -> dict[str, np.ndarray]:
        """Return the arrays for secure aggregation: a weighted or clipped update, or the statistics."""
        plan, config = messages.read_plan(work), messages.read_config(work)
        received = self.receive(plan, messages.read_arrays(work))
        if "classes" in config:
            statistics = self.statistics(messages.read_strings(config, "classes"), plan)
            return {name: array.astype(np.float64) for name, array in to_arrays(statistics).items()}
        count = self.train(plan, messages.read_round(work))["num-examples"]
        update = get_parameters(self.model).astype(np.float64) - received
        if plan.privacy is None:
            return {"psi": count * update, "weight": np.array([float(count)])}
        return {"psi": clip(update, plan.privacy.clip)[0], "weight": np.ones(1)}

    # Classification

    def features(self) -> Tensor:
        """Return the features of the client's images under the model's current ψ."""
        features = self.examples.embed.features()
        if invalid := int((~torch.isfinite(features).all(1)).sum()):
            raise InputError(f"The features of {invalid} images of {self.name} are not finite.")
        return features

    def statistics(self, classes: Sequence[str], plan: Plan) -> Statistics:
        """Return the sums over this client's images, by the federation's classes."""
        index = {name: i for i, name in enumerate(classes)}
        labels = torch.tensor([index[self.examples.classes[c]] for c in self.examples.labels.tolist()])
        return Statistics.of(self.features(), labels, len(classes), plan.scatter)

    def build_head(self) -> None:
        """Build the personalized head from this client's images under the model's current ψ."""
        self.model.build_head(self.features(), self.examples.labels)

    def evaluate(self) -> dict[str, float]:
        """Return the accuracy of the personalized classifier on this client's test images."""
        if self.test is None or not len(self.test):
            return {"num-examples": 0, "accuracy": 0.0}
        self.build_head()
        predicted = FeaturePredictor.of(self.model.head).predict(self.test.embed.features()).labels
        result = evaluate(predicted, self.test.labels, len(self.examples.classes))
        return {"num-examples": result.images, "accuracy": result.accuracy}

    def save(self, plan: Plan) -> str:
        """Save the personalized classifier as an update file and return its name; empty if there is none."""
        if self.state is None or plan.trained_by == "batches":
            return ""
        self.build_head()
        make_folder(self.state, parents=True)
        make_update(self.model, plan, self.examples.classes).save(self.state / PERSONAL_UPDATE)
        return PERSONAL_UPDATE

    # Residuals of error feedback, by round: a round that is repeated starts from the same residual.

    def _previous_residual(self, server_round: int) -> np.ndarray:
        residuals = self._residuals()
        before = [r for r in residuals if r < server_round]
        return residuals[max(before)] if before else np.zeros(sum(self.sizes), np.float32)

    def _save_residual(self, server_round: int, residual: np.ndarray) -> None:
        if self.state is None:
            return
        kept = {r: values for r, values in self._residuals().items() if r < server_round}
        kept = {r: kept[r] for r in sorted(kept)[-1:]} | {server_round: residual}
        buffer = io.BytesIO()
        np.savez(buffer, **{str(r): values for r, values in kept.items()})  # type: ignore[arg-type]
        make_folder(self.state, parents=True)
        write_atomically(self.state / RESIDUALS_FILE, buffer.getvalue())

    def _residuals(self) -> dict[int, np.ndarray]:
        if self.state is None or not (self.state / RESIDUALS_FILE).exists():
            return {}
        with np.load(self.state / RESIDUALS_FILE) as stored:
            return {int(name): stored[name] for name in stored.files}


def respond(
    client: Client, message_type: str, content: RecordDict, state: RecordDict, node: int
) -> RecordDict:
    """Return the client's reply; an error that it can explain becomes a refusal."""
    try:
        return client.handle(message_type, content, state, node)
    except FitError as error:
        return messages.make_reply(client.name, about={"refused": str(error)})
