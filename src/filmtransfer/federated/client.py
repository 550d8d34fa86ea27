"""A client: fine-tune from the global ψ, sum statistics, evaluate and save the personalized classifier.

Of its images it sends only ψ after its local steps and, on request, n_c, Σz and Σzzᵀ, and sums over the scores of its
held-out images (scores.py). All randomness is determined by the plan's seed, the client's name and the round, and each
round has a new optimizer: a round can be repeated exactly.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from flwr.app import RecordDict
from torch import Tensor

from ..arrays import to_numpy
from ..errors import FitError, InputError
from ..files import make_folder, write_atomically
from ..formatting import count, digits_for, percent
from ..heads import Statistics
from ..model import AdaptedModel, FeaturePredictor
from ..seeding import make_generator
from ..training.assess.assessment import assess, with_assessment
from ..training.assess.evaluation import evaluate
from ..training.assess.leave_one_out import leave_one_out
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
from .records import PERSONAL_UPDATE, Log
from .scores import HeldOutScores, LabelledFeatures, held_out_scores
from .statistics import from_arrays, to_arrays

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
    log: Log = lambda _: None  # receives what the client does, for its user

    def __post_init__(self) -> None:
        self.sizes = parameter_layout(self.model).sizes

    def handle(self, message_type: str, content: RecordDict, state: RecordDict, node: int) -> RecordDict:
        """Return the reply to a request; ``state`` is what Flower keeps for this client between messages."""
        plan = messages.read_plan(content)
        if message_type == messages.DESCRIBE:
            self.log("Reporting the classes and their numbers of images.")
            return messages.make_reply(self.name, about=self.describe())
        if message_type == messages.TRAIN:
            arrays, metrics = self.train_round(
                plan, messages.read_round(content, plan), messages.read_arrays(content)
            )
            return messages.make_reply(self.name, arrays, metrics)
        if message_type in (messages.STATISTICS, messages.SCORES):
            self.receive(plan, messages.read_arrays(content))
            self.log(f"{describe_sums(content)}.")
            return messages.make_reply(self.name, self.sums(plan, content, message_type))
        if message_type == messages.EVALUATE:
            return self.evaluate_round(plan, content)
        if message_type == messages.FINISH:
            self.log("Saving the personalized classifier.")
            self.receive(plan, messages.read_arrays(content))
            # Images count as seen unless the server says that fine-tuning has not seen them.
            trained = bool(messages.read_config(content).get("trained", True))
            return messages.make_reply(self.name, about={"saved": self.save(plan, trained=trained)})
        if message_type.startswith(messages.SECURE):
            stage = message_type.removeprefix(messages.SECURE)
            reply = handle_message(stage, content, state, self.compute, node, self.log)
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
        name, masked = plan.round_name(server_round), " for a masked sum" if plan.secure else ""
        self.log(f"{name}: training on {count(len(self.examples), 'image')}{masked}.")
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
        if history.stopped == "interrupted":  # of a simulation: half of a round is no result
            raise KeyboardInterrupt
        loss = {"loss": history.losses[-1]} if history.losses else {}  # a plan of 0 steps has none
        if history.losses:
            self.log(f"{name}: loss {history.losses[-1]:.3f} after {count(history.steps, 'step')}.")
        return {"num-examples": len(self.examples), "steps": history.steps, **loss}

    def compute(self, work: RecordDict) -> dict[str, np.ndarray]:
        """Return the arrays for secure aggregation: a weighted or clipped update, or sums over images."""
        plan = messages.read_plan(work)
        received = self.receive(plan, messages.read_arrays(work))
        if "classes" in messages.read_config(work):
            self.log(f"{describe_sums(work)}, masked.")
            return {name: array.astype(np.float64) for name, array in self.sums(plan, work).items()}
        examples = self.train(plan, messages.read_round(work, plan))["num-examples"]
        update = get_parameters(self.model).astype(np.float64) - received
        if plan.privacy is None:
            return {"psi": examples * update, "weight": np.array([float(examples)])}
        return {"psi": clip(update, plan.privacy.clip)[0], "weight": np.ones(1)}

    # Sums over images

    def sums(self, plan: Plan, content: RecordDict, message_type: str = "") -> dict[str, np.ndarray]:
        """Return the statistics of the head, or the scores of held-out images under the sum over all clients."""
        kind = messages.requested_sums(content, message_type)
        config = messages.read_config(content)
        classes = messages.read_strings(config, "classes")
        if kind == "statistics":
            return to_arrays(self.statistics(classes, plan))
        arrays = messages.read_arrays(content, messages.TOTAL)
        total = from_arrays(arrays, len(classes), self.model.backbone.features, plan.scatter)
        scores = self.scores(classes, total, messages.read_strings(config, "images"))
        if "mean" not in config:
            return scores.sums()
        mean, spread = (np.array(messages.read_numbers(config, name)) for name in ("mean", "spread"))
        return {"histogram": scores.histogram(mean, spread)}

    def scores(self, classes: Sequence[str], total: Statistics, images: Collection[str]) -> HeldOutScores:
        """Return what the classifier over all classes makes of this client's held-out images of these kinds."""
        own = LabelledFeatures(to_numpy(self.features()), self._labels(self.examples, classes).numpy())
        test = None
        if self.test is not None and len(self.test):
            test = LabelledFeatures(
                to_numpy(self.test.embed.features()), self._labels(self.test, classes).numpy()
            )
        return held_out_scores(self.model.head, total, own, test, images)

    def statistics(self, classes: Sequence[str], plan: Plan) -> Statistics:
        """Return the sums over this client's images, by the federation's classes."""
        return Statistics.of(
            self.features(), self._labels(self.examples, classes), len(classes), plan.scatter
        )

    @staticmethod
    def _labels(examples: Examples, classes: Sequence[str]) -> Tensor:
        """Return the labels of images among the federation's classes."""
        index = {name: i for i, name in enumerate(classes)}
        if unknown := sorted(set(examples.classes) - index.keys()):
            raise InputError(
                f"The federation has no class {', '.join(unknown)}.", "Connect before it begins."
            )
        return torch.tensor([index[examples.classes[c]] for c in examples.labels.tolist()])

    # Classification

    def features(self) -> Tensor:
        """Return the features of the client's images under the model's current ψ."""
        features = self.examples.embed.features()
        if invalid := int((~torch.isfinite(features).all(1)).sum()):
            raise InputError(f"The features of {invalid} images of {self.name} are not finite.")
        return features

    def build_head(self) -> None:
        """Build the personalized head from this client's images under the model's current ψ."""
        self.model.build_head(self.features(), self.examples.labels)

    def evaluate_round(self, plan: Plan, content: RecordDict) -> RecordDict:
        """Return the reply with the accuracy of the personalized classifier, and the statistics if they are requested.

        The server requests them where it has test images, on which it then evaluates the global classifier.
        """
        server_round = messages.read_round(content, plan, first=0)
        self.receive(plan, messages.read_arrays(content))
        config = messages.read_config(content)
        leave_one_out = bool(config.get("leave_one_out"))
        sums = self.sums(plan, content, messages.EVALUATE) if "classes" in config else None
        metrics = self.evaluate(leave_one_out)
        result = "statistics for the server's test images"
        if images := int(metrics["num-examples"]):
            how = " (leave-one-out)" if leave_one_out else ""
            accuracy = percent(metrics["accuracy"], digits_for(images))
            result = f"personalized accuracy {accuracy} on {count(images, 'image')}{how}"
        self.log(f"{plan.round_name(server_round)}: {result}.")
        return messages.make_reply(self.name, sums, metrics)

    def evaluate(self, without_tests: bool = False) -> dict[str, float]:
        """Return the accuracy of the personalized classifier on this client's test images.

        ``without_tests``: on its own images instead, by leave-one-out.
        """
        classes = len(self.examples.classes)
        if without_tests:
            left_out = leave_one_out(self.model.head, self.features(), self.examples.labels)
            result = evaluate(left_out.logits.argmax(1), self.examples.labels[left_out.index], classes)
        elif self.test is None or not len(self.test):
            return {"num-examples": 0, "accuracy": 0.0}
        else:
            self.build_head()
            predicted = FeaturePredictor.of(self.model.head).predict(self.test.embed.features()).labels
            result = evaluate(predicted, self.test.labels, classes)
        return {"num-examples": result.images, "accuracy": result.accuracy}

    def save(self, plan: Plan, *, trained: bool = True) -> str:
        """Save the personalized classifier as an update file and return its name; empty if there is none."""
        if self.state is None or plan.trained_by == "batches":
            return ""
        features, labels = self.features(), self.examples.labels
        self.model.build_head(features, labels)
        update = make_update(self.model, plan, self.examples.classes)
        held_out = np.full(len(labels), not trained)
        log_prior = np.zeros(len(self.examples.classes))
        assessment = assess(self.model.head, features, labels, held_out, log_prior, seed=plan.seed)
        make_folder(self.state, parents=True)
        with_assessment(update, assessment).save(self.state / PERSONAL_UPDATE)
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


def describe_sums(content: RecordDict) -> str:
    """Return in words which sums over its images a client is asked for."""
    if messages.requested_sums(content) == "statistics":
        return "Summing the statistics of the images"
    histogram = "mean" in messages.read_config(content)
    return (
        "Counting the scores of images" if histogram else "Summing the scores of images for the calibration"
    )


def respond(
    client: Client, message_type: str, content: RecordDict, state: RecordDict, node: int
) -> RecordDict:
    """Return the client's reply; its errors become refusals, with secure aggregation without details."""
    try:
        return client.handle(message_type, content, state, node)
    except FitError as error:
        client.log(f"The request is refused: {error}")
        reason = messages.UNSPECIFIED if messages.is_secure(content) else str(error)
        return messages.make_reply(client.name, about={"refused": reason})
