"""What a client does with a message: fine-tune from the global ψ, sum statistics, try its own classifier.

Nothing of its images leaves but ψ after its steps and, when asked, n_c, Σz and Σzzᵀ. Everything random follows from the
plan's seed, the client's name and the round, and each round has a new Adam: a round can be repeated to the last bit.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import RecordDict
from torch import Tensor

from ..errors import FitError, InputError
from ..files import write_atomically
from ..heads import Statistics
from ..model import AdaptedModel
from ..seeding import make_generator
from ..training.assess.evaluation import evaluate
from ..training.baselines.batch import Constant, train_batches
from ..training.finetune.activations import Activations
from ..training.finetune.episodic import finetune
from . import messages
from .compression import decode, encode
from .global_classifier import describe
from .masking import handle_message
from .parameters import layout_of, read, write
from .plan import Plan
from .privacy import clip
from .statistics import to_arrays


@dataclass
class Examples:
    """Labelled images as the model takes them; labels index the classes."""

    embed: Activations
    labels: Tensor
    classes: list[str]

    def __len__(self) -> int:
        return len(self.labels)


class Client:
    """One client's images, and a model to work with (in a simulation one for all of them)."""

    def __init__(
        self,
        name: str,
        model: AdaptedModel,
        examples: Examples,
        *,
        start: np.ndarray,
        test: Examples | None = None,
        state: Path | None = None,
    ) -> None:
        self.name = name
        self.model = model
        self.examples = examples
        self.start = start  # the model's numbers before the first round
        self.test = test
        self.state = state
        self.sizes = layout_of(model).sizes

    def answer(self, kind: str, content: RecordDict, memory: RecordDict, node: int) -> RecordDict:
        """The reply to a request; ``memory`` is what Flower keeps for this client between messages."""
        plan, config = messages.plan_of(content), messages.config_of(content)
        if kind == messages.DESCRIBE:
            return messages.reply(self.name, **self.describe())
        if kind == messages.ROUND:
            arrays, metrics = self.round(plan, int(config["round"]), messages.arrays_of(content))
            return messages.reply(self.name, arrays, metrics)
        if kind == messages.STATISTICS:
            self.receive(plan, messages.arrays_of(content))
            found = self.statistics(list(config["classes"]), plan.head)
            return messages.reply(self.name, to_arrays(found))
        if kind == messages.EVALUATE:
            self.receive(plan, messages.arrays_of(content))
            return messages.reply(self.name, metrics=self.evaluate())
        if kind == messages.FINISH:
            self.receive(plan, messages.arrays_of(content))
            return messages.reply(self.name, saved=self.keep(plan))
        if kind.startswith(messages.SECURE):
            stage = kind.removeprefix(messages.SECURE)
            made = handle_message(stage, content, memory, self.compute, node)
            made["about"] = messages.reply(self.name)["about"]
            return made
        raise InputError(f"{self.name} does not know what to do with {kind}.", "Is it of an older version?")

    def describe(self) -> dict[str, Any]:
        """Who this is and what it has: nothing about single images."""
        backbone = self.model.backbone
        return {
            "classes": self.examples.classes,
            "counts": torch.bincount(self.examples.labels, minlength=len(self.examples.classes)).tolist(),
            "backbone": backbone.name,
            "digest": backbone.digest,
            "pixels": json.dumps(asdict(self.model.pixels), sort_keys=True),
            "layout": layout_of(self.model).digest,
            "tests": 0 if self.test is None else len(self.test),
        }

    # Training

    def receive(self, plan: Plan, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        """ψ as the server meant it, and in the model."""
        sent = decode(arrays, plan.compression, self.sizes)
        if plan.compression != "none":
            sent = self.start + sent
        write(self.model, sent)
        return sent

    def round(
        self, plan: Plan, server_round: int, arrays: Mapping[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """ψ after this client's steps, and how many examples stand behind it."""
        sent = self.receive(plan, arrays)
        metrics = self.train(plan, server_round)
        learned = read(self.model)
        if plan.compression == "none":
            return encode(learned, "none", self.sizes), metrics
        step = learned - sent + self._owed(server_round)
        packed = encode(step, plan.compression, self.sizes)
        self._owe(server_round, step - decode(packed, plan.compression, self.sizes))
        return packed, metrics

    def train(self, plan: Plan, server_round: int) -> dict[str, float]:
        """The client's steps from where the model is; with one class or one image a class there are none."""
        settings = plan.training_config(server_round).resolve(self.model.backbone, len(self.examples))
        seed = make_generator(plan.seed, "client", self.name, server_round).initial_seed()
        pull = plan.mu if plan.algorithm == "fedprox" else 0.0
        pixels, labels = self.examples.embed.pixels, self.examples.labels
        if plan.head == "linear":
            rule = Constant(
                settings.steps or 0, settings.learning_rate, settings.batch, settings.weight_decay
            )
            weight, bias = self.model.head.configured()
            history = train_batches(
                self.model, pixels, labels, rule,
                seed=seed, micro_batch=settings.micro_batch, embed=self.examples.embed, begin=(weight, bias), pull=pull,
            )  # fmt: skip
        elif len(torch.unique(labels)) < 2:
            raise InputError(f"{self.name} has images of one class only: there is nothing to tell apart.")
        else:
            history = finetune(
                self.model, pixels, labels, settings, seed=seed, embed=self.examples.embed, pull=pull
            )
            if history.stopped == "one-shot":
                raise InputError(f"{self.name} has one image of each class: an episode needs a second one.")
        loss = history.losses[-1] if history.losses else float("nan")
        return {"num-examples": len(self.examples), "loss": loss, "steps": history.steps}

    def compute(self, work: RecordDict) -> dict[str, np.ndarray]:
        """The vectors to be summed securely: ψ weighted by examples, a clipped step, or the statistics."""
        plan, config = messages.plan_of(work), messages.config_of(work)
        sent = self.receive(plan, messages.arrays_of(work))
        if "classes" in config:
            return {
                k: v.astype(np.float64)
                for k, v in to_arrays(self.statistics(list(config["classes"]), plan.head)).items()
            }
        count = self.train(plan, int(config["round"]))["num-examples"]
        step = read(self.model).astype(np.float64) - sent
        if plan.privacy is None:
            return {"psi": count * step, "weight": np.array([float(count)])}
        return {"psi": clip(step, plan.privacy.clip)[0], "weight": np.ones(1)}

    # Classifying

    def features(self) -> Tensor:
        found = self.examples.embed.features()
        if bad := int((~torch.isfinite(found).all(1)).sum()):
            raise InputError(f"The features of {bad} images of {self.name} are not finite.")
        return found

    def statistics(self, classes: Sequence[str], head: str) -> Statistics:
        """Sums over this client's images, by the federation's classes."""
        place = {name: i for i, name in enumerate(classes)}
        labels = torch.tensor([place[self.examples.classes[c]] for c in self.examples.labels.tolist()])
        return Statistics.of(self.features(), labels, len(classes), "task" if head == "lda" else "none")

    def build(self) -> None:
        """The personal head: from this client's images, under the ψ that the model has."""
        self.model.build_head(self.features(), self.examples.labels)

    def evaluate(self) -> dict[str, float]:
        """How well the personal classifier does on this client's test images."""
        if self.test is None or not len(self.test):
            return {"num-examples": 0, "accuracy": 0.0}
        self.build()
        predicted = self.model.head.logits(self.test.embed.features()).argmax(1)
        found = evaluate(predicted.cpu(), self.test.labels, len(self.examples.classes))
        return {"num-examples": found.images, "accuracy": found.accuracy}

    def keep(self, plan: Plan) -> str:
        """Write the personal classifier as an update file beside the client's state."""
        if self.state is None or plan.head == "linear":
            return ""
        self.build()
        self.state.mkdir(parents=True, exist_ok=True)
        describe(self.model, plan, self.examples.classes).save(self.state / "personal.safetensors")
        return "personal.safetensors"

    # What rounding owes: kept by round, so that a round that is repeated finds what it found the first time.

    def _owed(self, server_round: int) -> np.ndarray:
        found = self._debts()
        before = [r for r in found if r < server_round]
        return found[max(before)] if before else np.zeros(sum(self.sizes), np.float32)

    def _owe(self, server_round: int, debt: np.ndarray) -> None:
        if self.state is None:
            return
        kept = {r: d for r, d in self._debts().items() if r < server_round}
        kept = {r: kept[r] for r in sorted(kept)[-1:]} | {server_round: debt}
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {str(r): d for r, d in kept.items()}
        np.savez(buffer, **arrays)
        self.state.mkdir(parents=True, exist_ok=True)
        write_atomically(self.state / "owed.npz", buffer.getvalue())

    def _debts(self) -> dict[int, np.ndarray]:
        if self.state is None or not (self.state / "owed.npz").exists():
            return {}
        with np.load(self.state / "owed.npz") as stored:
            return {int(name): stored[name] for name in stored.files}


def respond(client: Client, kind: str, content: RecordDict, memory: RecordDict, node: int) -> RecordDict:
    """The client's reply; a mistake that it can explain is a reply too."""
    try:
        return client.answer(kind, content, memory, node)
    except FitError as error:
        return messages.reply(client.name, refused=str(error))
