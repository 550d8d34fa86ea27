"""The simulated clients of a partitioned data set on one model, and the central evaluation of ψ.

Every image is decoded once and its activations below FiLM are cached, whichever clients have it. The population takes
no part in the protocol: clients handle messages as in a deployment, and ``evaluate`` uses images that no server has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..data import LabelledImages, read_squares
from ..data.pixels import ImageSource
from ..errors import InputError, UsageError, check_choice
from ..formatting import capitalize, count
from ..heads import Statistics
from ..model import AdaptedModel
from ..seeding import make_generator, permutation
from ..training.finetune.activations import Activations
from .client import Client, Examples
from .parameters import get_parameters, make_model, set_parameters
from .partition import Partition, by_folder, dirichlet, few_shot, merge_class_names, of_classes
from .plan import Plan
from .records import Log, RoundRecord

PARTITIONS = ("few_shot", "dirichlet", "folders")
CACHE_MB = 4096

# Reads the training and the test images of a data set, given its name and the folder of all data sets. The
# caller provides it: this package knows no data sets. Flower's simulation sends it to other processes, so it
# must be picklable.
ReadImages = Callable[[str, str], tuple[LabelledImages, LabelledImages]]


@dataclass(frozen=True)
class SimulationConfig:
    """Which images are used, and how they are partitioned among clients."""

    dataset: str
    root: str = ""
    clients: int = 10
    ways: int = 10
    shots: int = 5
    partition: str = "few_shot"
    alpha: float = 0.5  # of the Dirichlet partition: a small one is imbalanced
    classes: int = 0  # number of classes, drawn at random; 0: all
    test_images: int = 0  # number of test images, drawn at random; 0: all
    seed: int = 0
    weights: str = ""  # a file for the backbone


@dataclass(frozen=True)
class PartitionedImages:
    """The images of a simulation: ``names`` and ``partition`` are those of the clients."""

    train: LabelledImages
    test: LabelledImages
    partition: Partition
    names: list[str]


class ClientPopulation:
    """All clients of a simulation: ``client(i)`` returns one, ``evaluate(ψ)`` the paper's two accuracies."""

    def __init__(
        self,
        config: SimulationConfig,
        plan: Plan,
        read_images: ReadImages,
        state: Path | None = None,
        log: Log = lambda _: None,
    ) -> None:
        self.config, self.plan, self.state = config, plan, state
        images = _partition_images(config, read_images)
        self.partition, self.names = images.partition, images.names
        self.classes = [str(name) for name in images.train.classes]
        log(self.partition.describe() + ".")
        log(f"Loading the backbone {plan.backbone}.")
        self.model: AdaptedModel = make_model(plan, len(self.classes), weights=config.weights or None)
        self.start = get_parameters(self.model)
        used = self.partition.used()
        self.pool_index = np.full(len(images.train), -1)
        self.pool_index[used] = np.arange(len(used))
        log(f"Reading {count(len(used), 'training image')} and {count(len(images.test), 'test image')}.")
        self.pool = self._embed([images.train.sources[i] for i in used])
        self.labels = torch.tensor([images.train.labels[i] for i in used])
        self.test = self._embed(images.test.sources)
        self.test_labels = torch.tensor(images.test.labels)

    def __len__(self) -> int:
        return len(self.partition)

    def rows(self, index: int) -> Tensor:
        """Return the indices of a client's images in the pool."""
        return torch.from_numpy(self.pool_index[self.partition.clients[index]])

    def test_rows(self, index: int) -> Tensor:
        """Return the indices of the test images of a client's classes."""
        own = torch.unique(self.labels[self.rows(index)])
        return torch.nonzero(torch.isin(self.test_labels, own)).flatten()

    def client(self, index: int) -> Client:
        """Return a client with its images, on the shared model."""
        rows = self.rows(index)
        own, labels = torch.unique(self.labels[rows], return_inverse=True)
        if self.plan.trained_by == "batches":  # one head for all clients: labels are the federation's
            own, labels = torch.arange(len(self.classes)), self.labels[rows]
        examples = Examples(self.pool.select(rows), labels, [self.classes[c] for c in own.tolist()])
        state = self.state / self.names[index] if self.state else None
        return Client(self.names[index], self.model, examples, start=self.start, state=state)

    def evaluate(self, psi: np.ndarray) -> RoundRecord:
        """Return the accuracy of the global classifier, and of each client's own on its classes, under ψ."""
        set_parameters(self.model, psi)
        test = self.test.features()
        if self.plan.trained_by == "batches":
            return {"accuracy": self.accuracy(self.model.head.logits(test))}
        pool = self.pool.features()
        personal = [
            self.personalized_accuracy(i, pool[self.rows(i)], test[self.test_rows(i)])
            for i in range(len(self))
            if len(self.test_rows(i))
        ]
        return evaluation(self.accuracy(self.global_logits(pool, test)), personal)

    def personalized_accuracy(self, index: int, support: Tensor, test: Tensor) -> float:
        """Return the accuracy of a client's own head, given the features of its images and of its test images."""
        self.model.head.configure(support, self.labels[self.rows(index)])
        predicted = self.model.head.classes[self.model.head.logits(test).argmax(1)]
        return float((predicted == self.test_labels[self.test_rows(index)]).double().mean())

    def global_logits(self, pool: Tensor, test: Tensor) -> Tensor:
        """Return the logits of the head over all classes, built from the sums of the clients."""
        parts = (
            Statistics.of(pool[rows], self.labels[rows], len(self.classes), self.plan.scatter)
            for rows in map(self.rows, range(len(self)))
        )
        self.model.head.configure_from(reduce(add, parts))
        logits: Tensor = self.model.head.logits(test)
        return logits

    def restricted_accuracy(self, logits: Tensor) -> list[float]:
        """Return the accuracy of the global classifier among each client's classes: the personalized upper bound."""
        result = []
        for index in range(len(self)):
            own, rows = torch.unique(self.labels[self.rows(index)]), self.test_rows(index)
            if not len(rows):
                continue
            predicted = own[logits[rows][:, own].argmax(1)]
            result.append(float((predicted == self.test_labels[rows]).double().mean()))
        return result

    def accuracy(self, logits: Tensor) -> float:
        """Return the accuracy of logits of all test images."""
        return float((logits.argmax(1) == self.test_labels).double().mean())

    def _embed(self, sources: Sequence[ImageSource]) -> Activations:
        squares, skipped = read_squares(
            sources, self.model.pixels, [f"image {i}" for i in range(len(sources))]
        )
        if skipped:
            raise InputError(
                f"{capitalize(count(len(skipped), 'image'))} cannot be used, the first: "
                f"{skipped[0].name}: {skipped[0].reason}."
            )
        pixels = torch.from_numpy(np.stack([square for square in squares if square is not None]))
        return Activations(self.model, pixels, CACHE_MB)


def evaluation(accuracy: float, personal: list[float]) -> RoundRecord:
    """Return the record of the accuracy of the global classifier and of the clients' personalized ones.

    ``personal`` has the clients with test images of their classes; there may be none.
    """
    if not personal:
        return {"accuracy": accuracy}
    return {"accuracy": accuracy, "personalized": float(np.mean(personal)), "clients_accuracy": personal}


def _partition_images(config: SimulationConfig, read_images: ReadImages) -> PartitionedImages:
    """Read the training and the test images, and assign the training images to clients."""
    check_choice("The partition", config.partition, PARTITIONS)
    if config.partition == "folders":
        return _read_folders(Path(config.root))
    train, test = _select_images(config, *read_images(config.dataset, config.root))
    labels = np.array(train.labels)
    if config.partition == "dirichlet":
        partition = dirichlet(labels, clients=config.clients, alpha=config.alpha, seed=config.seed, least=2)
    else:
        partition = few_shot(
            labels, clients=config.clients, ways=config.ways, shots=config.shots, seed=config.seed,
            names=[str(name) for name in train.classes],
        )  # fmt: skip
    width = len(str(config.clients - 1))
    names = [f"client-{i:0{width}d}" for i in range(config.clients)]
    return PartitionedImages(train, test, partition, names)


def _select_images(
    config: SimulationConfig, train: LabelledImages, test: LabelledImages
) -> tuple[LabelledImages, LabelledImages]:
    """Return the images of the chosen number of classes, and the chosen number of test images."""
    kept = list(range(len(train.classes)))
    if config.classes:
        if not 2 <= config.classes <= len(kept):
            raise UsageError(
                f"{config.dataset} has {len(kept)} classes; {config.classes} cannot be used.",
                f"Use 2 to {len(kept)}.",
            )
        order = permutation(len(kept), make_generator(config.seed, "federation's classes", config.dataset))
        kept = sorted(order[: config.classes].tolist())
    classes = [train.classes[c] for c in kept]
    generator = make_generator(0, "test images", config.dataset)
    return of_classes(train, classes), of_classes(test, classes, config.test_images, generator)


def _read_folders(root: Path) -> PartitionedImages:
    """Read one folder for each client in ``root/train``, and one folder for each class in ``root/test``."""
    by_client = by_folder(root / "train")
    test = LabelledImages.from_folder(root / "test")
    classes = merge_class_names(
        {name: [str(c) for c in images.classes] for name, images in by_client.items()}
    )
    if unknown := sorted({str(c) for c in test.classes} - set(classes)):
        raise InputError(
            f"The test images are of {', '.join(unknown)}, which no client has.", "Remove them from test/."
        )
    parts = [of_classes(images, classes) for images in by_client.values()]
    sources = [source for part in parts for source in part.sources]
    labels = [label for part in parts for label in part.labels]
    clients = np.split(np.arange(len(labels)), np.cumsum([len(part) for part in parts])[:-1])
    return PartitionedImages(
        LabelledImages(sources, labels, list(classes)),
        of_classes(test, classes),
        Partition(clients, np.array(labels)),
        list(by_client),
    )
