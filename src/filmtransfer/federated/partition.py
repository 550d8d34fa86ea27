"""Partitions of a data set among clients: at random from one seed, or by folders.

``few_shot`` is the paper's: every client has some classes and a few images of each. ``dirichlet`` assigns every
image to one client, with uneven classes. ``by_folder`` reads one folder per client.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..data import LabelledImages, find_images
from ..data.images import Label, spelling_key
from ..errors import InputError, UsageError, check_count
from ..seeding import make_generator, permutation


@dataclass(frozen=True, eq=False)
class Partition:
    """The indices of each client's images in a data set; ``labels`` are those of the complete set."""

    clients: list[np.ndarray]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.clients)

    def counts(self, client: int) -> dict[int, int]:
        """Return how many images of each of its classes a client has."""
        classes, counts = np.unique(self.labels[self.clients[client]], return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))

    def classes(self, client: int) -> list[int]:
        """Return the labels of which a client has images."""
        return list(self.counts(client))

    def covered(self) -> list[int]:
        """Return the labels of which any client has images."""
        return sorted({c for client in range(len(self)) for c in self.classes(client)})

    def used(self) -> np.ndarray:
        """Return the indices of all images that any client has, each once."""
        return np.unique(np.concatenate(self.clients))

    def describe(self) -> str:
        """Return one line of text: clients, classes and images of each, and which share of the set is used."""
        classes = _count([len(self.classes(c)) for c in range(len(self))], "class", "classes")
        images = _count([len(own) for own in self.clients], "image", "images")
        total, distinct = sum(map(len, self.clients)), len(self.used())
        shared = f"{distinct} of them different" if distinct < total else "each with one client"
        return (
            f"{_count([len(self)], 'client', 'clients')}, {classes} and {images} each; "
            f"{len(self.covered())} of {_count([len(np.unique(self.labels))], 'class', 'classes')}; "
            f"{_count([total], 'image', 'images')} in all, {shared}"
        )


def few_shot(
    labels: Sequence[int] | np.ndarray,
    *,
    clients: int,
    ways: int,
    shots: int,
    seed: int,
    cover: bool = True,
    names: Sequence[str] = (),
) -> Partition:
    """Assign ``ways`` classes to each client, and ``shots`` images of each.

    Classes are drawn from random permutations, one after another: every class is drawn before any is drawn again, so
    the numbers of clients of two classes differ by at most one. The images of a class are assigned to its clients in
    turn: with fewer shots a client has a subset of the images that it has with more, and no two clients share an image
    while there are enough. ``names`` are for errors.
    """
    values = _check_labels(labels)
    for name, value in (("clients", clients), ("ways", ways), ("shots", shots)):
        check_count(name, value)
    present = np.unique(values)
    if ways > len(present):
        raise UsageError(
            f"A client cannot have {ways} of {len(present)} classes.", f"Use at most {len(present)} ways."
        )
    if cover and clients * ways < len(present):
        raise UsageError(
            f"{clients} clients with {ways} classes each do not cover all {len(present)} classes.",
            f"Use {math.ceil(len(present) / ways)} clients or {math.ceil(len(present) / clients)} ways, "
            "or fewer classes.",
        )
    sampler = _PermutationSampler(len(present), seed, "federated classes")
    chosen: list[list[int]] = [[] for _ in range(clients)]  # classes by client
    for classes in chosen:
        for _ in range(ways):
            classes.append(sampler.draw(classes))
    owned: list[dict[int, list[int]]] = [{} for _ in range(clients)]  # class → its images, by client
    for c in sorted({c for classes in chosen for c in classes}):
        label = int(present[c])
        members = np.flatnonzero(values == label)
        if len(members) < shots:
            raise InputError(
                f"There are {len(members)} images of {names[label] if names else f'class {label}'}, "
                f"but each of its clients needs {shots}.",
                "Use fewer shots, or remove the class.",
            )
        sampler = _PermutationSampler(len(members), seed, "federated images", label)
        holders = [own for own, classes in zip(owned, chosen, strict=True) if c in classes]
        drawn: list[list[int]] = [[] for _ in holders]  # images by client
        for _ in range(shots):
            for images in drawn:
                images.append(sampler.draw(images))
        for own, images in zip(holders, drawn, strict=True):
            own[c] = members[images].tolist()
    return Partition([np.array([i for c in sorted(own) for i in own[c]]) for own in owned], values)


class _PermutationSampler:
    """Draws from random permutations of 0 … n−1, one after another; elements that cannot be used stay for later."""

    def __init__(self, count: int, seed: int, *name: str | int) -> None:
        self.count, self.seed, self.name = count, seed, name
        self.permutations = 0
        self.waiting: list[int] = []  # the last is next

    def draw(self, exclude: Sequence[int]) -> int:
        """Return the next element that is not excluded; there must be one."""
        while True:
            for index in range(len(self.waiting) - 1, -1, -1):
                if self.waiting[index] not in exclude:
                    return self.waiting.pop(index)
            generator = make_generator(self.seed, *self.name, self.permutations)
            self.waiting = permutation(self.count, generator).tolist() + self.waiting
            self.permutations += 1


def dirichlet(
    labels: Sequence[int] | np.ndarray, *, clients: int, alpha: float, seed: int, least: int = 1
) -> Partition:
    """Assign every image to exactly one client, each class in proportions drawn from Dirichlet(α, …, α).

    A small α gives each client few classes, a large one the same mixture to all. A client with fewer than
    ``least`` images gets more at random, each from the client that has the most at that time.
    """
    values = _check_labels(labels)
    check_count("clients", clients)
    check_count("least", least, 0)
    if not 0 < alpha < math.inf:
        raise UsageError(f"alpha cannot be {alpha}.", "It is above 0: 0.1 is very uneven, 100 nearly even.")
    if clients * least > len(values):
        raise UsageError(
            f"{len(values)} images are not enough for {clients} clients with at least {least} each.",
            "Use fewer clients, or a smaller least.",
        )
    owned: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(values).tolist():
        members = np.flatnonzero(values == label)
        members = members[permutation(len(members), make_generator(seed, "dirichlet images", label)).numpy()]
        shares = _shares(clients, alpha, make_generator(seed, "dirichlet shares", label))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
        for images, part in zip(owned, np.split(members, cuts), strict=True):
            images.extend(part.tolist())
    generator = make_generator(seed, "dirichlet least")
    for images in owned:
        while len(images) < least:
            largest = max(owned, key=len)  # has more than least, or there would not be enough images
            images.append(largest.pop(int(torch.randint(len(largest), (), generator=generator))))
    return Partition([np.sort(np.array(images, dtype=np.int64)) for images in owned], values)


def _shares(clients: int, alpha: float, generator: torch.Generator) -> np.ndarray:
    """Draw from the symmetric Dirichlet distribution; use its limit where α is too small or too large to compute."""
    shares = np.random.default_rng(generator.initial_seed()).dirichlet(np.full(clients, min(alpha, 1e12)))
    if not np.isclose(shares.sum(), 1):  # α so small that all of it underflows, or not finite
        shares = np.zeros(clients)
        shares[int(torch.randint(clients, (), generator=generator))] = 1.0
    return shares


def by_folder(root: str | Path) -> dict[str, LabelledImages]:
    """Read one folder per client with one subfolder per class; clients are in the order of their names."""
    base = Path(root)
    if not base.is_dir():
        raise InputError(f"There is no folder {base}.", "Give a folder with one subfolder per client.")
    folders = sorted(p for p in base.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not folders:
        raise InputError(
            f"{base} has no client folders.",
            f"As in {base / 'anna' / 'cat' / '1.jpg'}: client, class, photo.",
        )
    clients: dict[str, LabelledImages] = {}
    for folder in folders:
        if not any(find_images(p) for p in folder.iterdir() if p.is_dir() and not p.name.startswith(".")):
            why = "has photos but no class folders" if find_images(folder) else "has no images"
            raise InputError(
                f"The client {folder.name} in {base} {why}.",
                f"As in {folder / 'cat' / '1.jpg'}: client, class, photo. Remove the folder if it is not a client's.",
            )
        own = clients[folder.name] = LabelledImages.from_folder(folder)
        if len(own.classes) == 1:
            own.warnings.append(
                f"{folder.name} has one class, {own.classes[0]}: it contributes to the global classifier, "
                "but has no personalized one."
            )
    merge_class_names({name: [str(c) for c in images.classes] for name, images in clients.items()})
    return clients


def of_classes(
    images: LabelledImages,
    classes: Sequence[Label],
    limit: int = 0,
    generator: torch.Generator | None = None,
) -> LabelledImages:
    """Return the images of these classes, with labels that index them; at most ``limit`` at random (0: all)."""
    index = {str(name): c for c, name in enumerate(classes)}
    labels = [index.get(str(images.classes[label]), -1) for label in images.labels]
    chosen = [i for i, label in enumerate(labels) if label >= 0]
    if generator and 0 < limit < len(chosen):
        order = permutation(len(chosen), generator)[:limit]
        chosen = sorted(chosen[int(i)] for i in order)
    return LabelledImages([images.sources[i] for i in chosen], [labels[i] for i in chosen], list(classes))


def merge_class_names(names_by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """Return all class names, sorted; refuse names that differ only in spelling.

    Spelled differently, one class would be learned as two: differences in case, in the encoding of accents, and in
    leading, trailing or repeated spaces are treated as mistakes.
    """
    first: dict[str, tuple[str, str]] = {}  # the key of a name → its spelling and its client
    for client, names in names_by_client.items():
        for name in names:
            if not isinstance(name, str) or not name.strip():
                raise InputError(f"{client} has a class called {name!r}.", "Give every class a name.")
            spelling, owner = first.setdefault(spelling_key(name), (name, client))
            if spelling != name:
                who = f"{client} has" if owner == client else f"{owner} and {client} have"
                raise InputError(
                    f"{who} classes that differ only in spelling: {_spellings(spelling, name)}.",
                    "Give them the same name if they are one class, clearly different names if not.",
                )
    return sorted(spelling for spelling, _ in first.values())


def _spellings(one: str, other: str) -> str:
    """Return both spellings, with the codes of their characters where they look the same."""
    pair = (one, other)
    if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other):
        pair = (ascii(one)[1:-1], ascii(other)[1:-1])
    return " and ".join(f"'{name}'" for name in pair)


def _check_labels(labels: Sequence[int] | np.ndarray) -> np.ndarray:
    values: np.ndarray = np.asarray(labels)
    if values.ndim != 1 or len(values) == 0 or not np.issubdtype(values.dtype, np.integer):
        raise InputError("There are no labels to partition.", "Give one integer for each image.")
    return values.astype(np.int64)


def _count(values: Sequence[int], one: str, more: str) -> str:
    low, high = min(values), max(values)
    return f"{low}{'' if low == high else f' to {high}'} {one if high == 1 else more}"
