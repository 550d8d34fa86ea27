"""A simulated population: the clients of a partitioned set, on one model, and their accuracies seen from above.

Every image is decoded once and its activations below FiLM are kept, whoever owns it. Nothing here takes part in the
protocol: clients answer messages as anywhere, and what ``evaluate`` knows no server would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data import LabelledImages, read_squares
from ..errors import InputError, UsageError, invalid_choice
from ..heads import Statistics
from ..model import AdaptedModel
from ..seeding import make_generator, permutation
from ..training.finetune.activations import Activations
from .client import Client, Examples
from .parameters import make_model, read, write
from .partition import Partition, by_folder, dirichlet, few_shot, same_classes
from .plan import Plan

PARTITIONS = ("few_shot", "dirichlet", "folders")
CACHE_MB = 4096

# Read the training and the test images of a data set, given its name and the folder of all data sets. The
# caller provides it: this package knows no data sets. Flower's simulation sends it to other processes, so it
# must be picklable.
ReadImages = Callable[[str, str], tuple[LabelledImages, LabelledImages]]


@dataclass(frozen=True)
class SimulationConfig:
    """Which images, and who has them."""

    dataset: str
    root: str = ""
    clients: int = 10
    ways: int = 10
    shots: int = 5
    partition: str = "few_shot"
    alpha: float = 0.5  # of the Dirichlet partition: small is one-sided
    classes: int = 0  # so many of the set's classes, drawn at random; 0: all
    test_images: int = 0  # so many of the test images, drawn at random; 0: all
    seed: int = 0
    weights: str = ""  # a file for the backbone


class ClientPopulation:
    """``client(i)`` for each of them; ``evaluate(ψ)`` for the two settings of the paper."""

    def __init__(
        self, scene: SimulationConfig, plan: Plan, read_images: ReadImages, state: Path | None = None
    ) -> None:
        self.scene, self.plan, self.state = scene, plan, state
        learn, tried, self.partition, self.names = _draw(scene, read_images)
        self.classes = [str(name) for name in learn.classes]
        self.model: AdaptedModel = make_model(plan, len(self.classes), weights=scene.weights or None)
        self.start = read(self.model)
        used = self.partition.used()
        self.place = np.full(len(learn), -1)
        self.place[used] = np.arange(len(used))
        self.pool = self._keep([learn.sources[i] for i in used])
        self.labels = torch.tensor([learn.labels[i] for i in used])
        self.test = self._keep(tried.sources)
        self.test_labels = torch.tensor(tried.labels)

    def __len__(self) -> int:
        return len(self.partition)

    def rows(self, index: int) -> Tensor:
        """Where a client's images are in the pool."""
        return torch.from_numpy(self.place[self.partition.clients[index]])

    def client(self, index: int) -> Client:
        rows = self.rows(index)
        own, labels = torch.unique(self.labels[rows], return_inverse=True)
        if self.plan.head == "linear":  # one head for all: labels are the federation's
            own, labels = torch.arange(len(self.classes)), self.labels[rows]
        examples = Examples(self.pool.pick(rows), labels, [self.classes[c] for c in own.tolist()])
        state = self.state / self.names[index] if self.state else None
        return Client(self.names[index], self.model, examples, start=self.start, state=state)

    def evaluate(self, psi: np.ndarray) -> dict[str, Any]:
        """Accuracy of the global classifier, and of each client's own on its classes, under ψ."""
        write(self.model, psi)
        tried = self.test.features()
        if self.plan.head == "linear":
            return {"accuracy": self.accuracy(self.model.head.logits(tried))}
        pool = self.pool.features()
        personal = [self.personal(index, pool, tried) for index in range(len(self))]
        logits = self.global_logits(pool, tried)
        return {
            "accuracy": self.accuracy(logits),
            "personalized": float(np.mean(personal)),
            "clients_accuracy": personal,
        }

    def personal(self, index: int, pool: Tensor, tried: Tensor) -> float:
        """A head from the client's own images, tried on the test images of its classes."""
        rows = self.rows(index)
        self.model.head.configure(pool[rows], self.labels[rows])
        own = self.model.head.classes
        asked = torch.isin(self.test_labels, own)
        predicted = own[self.model.head.logits(tried[asked]).argmax(1)]
        return float((predicted == self.test_labels[asked]).double().mean())

    def global_logits(self, pool: Tensor, tried: Tensor) -> Tensor:
        """The head over all classes, from the sums of the clients."""
        total: Statistics | None = None
        scatter = "task" if self.plan.head == "lda" else "none"
        for index in range(len(self)):
            rows = self.rows(index)
            part = Statistics.of(pool[rows], self.labels[rows], len(self.classes), scatter)  # type: ignore[arg-type]
            total = part if total is None else total + part
        assert total is not None
        self.model.head.configure_from(total)
        return self.model.head.logits(tried)

    def restricted(self, logits: Tensor) -> list[float]:
        """The global classifier on each client's classes only (the paper's upper bound of the personal ones)."""
        found = []
        for index in range(len(self)):
            own = torch.unique(self.labels[self.rows(index)])
            asked = torch.isin(self.test_labels, own)
            predicted = own[logits[asked][:, own].argmax(1)]
            found.append(float((predicted == self.test_labels[asked]).double().mean()))
        return found

    def accuracy(self, logits: Tensor) -> float:
        return float((logits.argmax(1) == self.test_labels).double().mean())

    def _keep(self, sources: Sequence[Any]) -> Activations:
        pixels = decode_all(sources, self.model)
        return Activations(self.model, pixels, CACHE_MB)


def decode_all(sources: Sequence[Any], model: AdaptedModel) -> Tensor:
    """Squares of all images; one that cannot be read is an error here."""
    squares, skipped = read_squares(sources, model.pixels, [f"image {i}" for i in range(len(sources))])
    if skipped:
        raise InputError(
            f"{len(skipped)} images cannot be used, the first: {skipped[0].name}: {skipped[0].reason}."
        )
    return torch.stack([square for square in squares if square is not None])


def _draw(
    scene: SimulationConfig, read_images: ReadImages
) -> tuple[LabelledImages, LabelledImages, Partition, list[str]]:
    """Images to learn from and to be tried on, and who has which; classes nobody has are left out."""
    if scene.partition not in PARTITIONS:
        raise invalid_choice("The partition", scene.partition, PARTITIONS)
    if scene.partition == "folders":
        return _folders(scene)
    learn, tried = _set(scene, read_images)
    labels = np.array(learn.labels)
    if scene.partition == "dirichlet":
        parts = dirichlet(labels, clients=scene.clients, alpha=scene.alpha, seed=scene.seed, least=2)
    else:
        parts = few_shot(
            labels, clients=scene.clients, ways=scene.ways, shots=scene.shots, seed=scene.seed,
            names=[str(name) for name in learn.classes],
        )  # fmt: skip
    width = len(str(scene.clients - 1))
    return learn, tried, parts, [f"client-{i:0{width}d}" for i in range(scene.clients)]


def _set(scene: SimulationConfig, read_images: ReadImages) -> tuple[LabelledImages, LabelledImages]:
    """Read the data set, restricted to the chosen classes and number of test images."""
    learn, tried = read_images(scene.dataset, scene.root)
    kept = sorted(range(len(learn.classes)))
    if scene.classes:
        if not 2 <= scene.classes <= len(kept):
            raise UsageError(
                f"{scene.dataset} has {len(kept)} classes; {scene.classes} cannot be taken.",
                f"From 2 to {len(kept)}.",
            )
        order = permutation(len(kept), make_generator(scene.seed, "federation's classes", scene.dataset))
        kept = sorted(order[: scene.classes].tolist())
    return _some(learn, kept, 0, scene), _some(tried, kept, scene.test_images, scene)


def _some(images: LabelledImages, kept: list[int], limit: int, scene: SimulationConfig) -> LabelledImages:
    """The images of some classes, and no more than ``limit`` of them."""
    place = {c: i for i, c in enumerate(kept)}
    chosen = [i for i, label in enumerate(images.labels) if label in place]
    if limit and limit < len(chosen):
        order = permutation(len(chosen), make_generator(0, "test images", scene.dataset))[:limit]
        chosen = sorted(chosen[int(i)] for i in order)
    return LabelledImages(
        [images.sources[i] for i in chosen],
        [place[images.labels[i]] for i in chosen],
        [images.classes[c] for c in kept],
    )


def _folders(scene: SimulationConfig) -> tuple[LabelledImages, LabelledImages, Partition, list[str]]:
    """A folder for each client in ``root/train``, and a folder for each class in ``root/test``."""
    root = Path(scene.root)
    found = by_folder(root / "train")
    tried = LabelledImages.from_folder(root / "test")
    classes = same_classes({name: [str(c) for c in own.classes] for name, own in found.items()})
    place = {name: i for i, name in enumerate(classes)}
    if unknown := sorted({str(c) for c in tried.classes} - place.keys()):
        raise InputError(
            f"The test images are of {', '.join(unknown)}, which no client has.", "Remove them from test/."
        )
    sources: list[Any] = []
    labels: list[int] = []
    clients = []
    for own in found.values():
        clients.append(np.arange(len(sources), len(sources) + len(own)))
        sources += own.sources
        labels += [place[str(own.classes[label])] for label in own.labels]
    learn = LabelledImages(sources, labels, list(classes))
    test = LabelledImages(tried.sources, [place[str(tried.classes[c])] for c in tried.labels], list(classes))
    return learn, test, Partition(clients, np.array(labels)), list(found)
