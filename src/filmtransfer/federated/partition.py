"""Who has which images: a set dealt out to clients, at random but from one seed, or as their folders say.

``few_shot`` is the paper's: every client has some classes and a few images of each. ``dirichlet`` gives away every
image, the classes unevenly. ``by_folder`` is for people: a folder per client.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data import LabelledImages, find_images
from ..errors import InputError, UsageError
from ..seeding import make_generator, permutation


@dataclass(frozen=True, eq=False)
class Partition:
    """For each client the places of its images among a set's; ``labels`` are those of the whole set."""

    clients: list[np.ndarray]
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.clients)

    def counts(self, client: int) -> dict[int, int]:
        """How many images of each of its classes a client has."""
        found, times = np.unique(self.labels[self.clients[client]], return_counts=True)
        return dict(zip(found.tolist(), times.tolist(), strict=True))

    def classes(self, client: int) -> list[int]:
        """The labels that a client has images of."""
        return list(self.counts(client))

    def covered(self) -> list[int]:
        """The labels that somebody has images of."""
        return sorted({c for client in range(len(self)) for c in self.classes(client)})

    def used(self) -> np.ndarray:
        """Every image that somebody has, once."""
        return np.unique(np.concatenate(self.clients))

    def describe(self) -> str:
        """One line for people: clients, classes and images of each, and whether anything is left out."""
        classes = _count([len(self.classes(c)) for c in range(len(self))], "class", "classes")
        images = _count([len(own) for own in self.clients], "image", "images")
        handed, once = sum(map(len, self.clients)), len(self.used())
        shared = f"{once} of them different" if once < handed else "each with one client"
        return (
            f"{_count([len(self)], 'client', 'clients')}, {classes} and {images} each; "
            f"{len(self.covered())} of {_count([len(np.unique(self.labels))], 'class', 'classes')}; "
            f"{_count([handed], 'image', 'images')} in all, {shared}"
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
    """``ways`` classes for each client, ``shots`` images of each.

    The classes are dealt like cards: a new shuffled deck is opened when one is used up, so every class is dealt
    before any is dealt again, and no two classes differ by more than one in how many clients have them. The
    images of a class go round its clients, one each time: with fewer shots a client has the first of those that
    it has with more, and no two clients share an image while there are enough. ``names`` are for errors.
    """
    found = _checked(labels)
    for what, value in (("clients", clients), ("ways", ways), ("shots", shots)):
        _at_least_one(what, value)
    present = np.unique(found)
    if ways > len(present):
        raise UsageError(
            f"A client cannot have {ways} of {len(present)} classes.", f"Take at most {len(present)} ways."
        )
    if cover and clients * ways < len(present):
        raise UsageError(
            f"{clients} clients with {ways} classes each leave some of the {len(present)} classes to nobody.",
            f"Take {math.ceil(len(present) / ways)} clients or {math.ceil(len(present) / clients)} ways, "
            "or say that not every class has to be covered.",
        )
    classes = _Decks(len(present), seed, "federated classes")
    hands: list[list[int]] = [[] for _ in range(clients)]
    for hand in hands:
        for _ in range(ways):
            hand.append(classes.deal(hand))
    owned: list[dict[int, list[int]]] = [{} for _ in range(clients)]  # class → its images, by client
    for c in sorted({c for hand in hands for c in hand}):
        label = int(present[c])
        members = np.flatnonzero(found == label)
        if len(members) < shots:
            raise InputError(
                f"There are {len(members)} images of {names[label] if names else f'class {label}'}, "
                f"but each of its clients is to have {shots}.",
                "Take fewer shots, or leave the class out.",
            )
        images = _Decks(len(members), seed, "federated images", label)
        holders = [own for own, hand in zip(owned, hands, strict=True) if c in hand]
        mine: list[list[int]] = [[] for _ in holders]
        for _ in range(shots):
            for hand in mine:
                hand.append(images.deal(hand))
        for own, hand in zip(holders, mine, strict=True):
            own[c] = members[hand].tolist()
    return Partition([np.array([i for c in sorted(own) for i in own[c]]) for own in owned], found)


class _Decks:
    """Cards 0 … n−1, shuffled deck upon shuffled deck; what a hand holds already stays for the next one."""

    def __init__(self, count: int, seed: int, *name: str | int) -> None:
        self.count, self.seed, self.name = count, seed, name
        self.opened = 0
        self.waiting: list[int] = []  # the last is the top

    def deal(self, hand: Sequence[int]) -> int:
        """The first card that is not in the hand, which must not be full."""
        while True:
            for place in range(len(self.waiting) - 1, -1, -1):
                if self.waiting[place] not in hand:
                    return self.waiting.pop(place)
            generator = make_generator(self.seed, *self.name, self.opened)
            self.waiting = permutation(self.count, generator).tolist() + self.waiting
            self.opened += 1


def dirichlet(
    labels: Sequence[int] | np.ndarray, *, clients: int, alpha: float, seed: int, least: int = 1
) -> Partition:
    """Every image to exactly one client: of each class, shares drawn from Dirichlet(α, …, α).

    A small α gives each client few classes, a large one the same mixture to all. A client that ends up with
    fewer than ``least`` images gets one after the other at random from whoever has the most at that time.
    """
    found = _checked(labels)
    _at_least_one("clients", clients)
    if not isinstance(least, int) or isinstance(least, bool) or least < 0:
        raise UsageError(f"least cannot be {least!r}.", "It is a whole number of at least 0.")
    if not 0 < alpha < math.inf:
        raise UsageError(f"alpha cannot be {alpha}.", "It is above 0: 0.1 is very uneven, 100 nearly even.")
    if clients * least > len(found):
        raise UsageError(
            f"{len(found)} images are not enough for {clients} clients with at least {least} each.",
            "Take fewer clients, or a smaller least.",
        )
    hands: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(found).tolist():
        members = np.flatnonzero(found == label)
        members = members[permutation(len(members), make_generator(seed, "dirichlet images", label)).numpy()]
        shares = _shares(clients, alpha, make_generator(seed, "dirichlet shares", label))
        cuts = np.round(np.cumsum(shares)[:-1] * len(members)).astype(int)
        for hand, part in zip(hands, np.split(members, cuts), strict=True):
            hand.extend(part.tolist())
    generator = make_generator(seed, "dirichlet least")
    for hand in hands:
        while len(hand) < least:
            richest = max(hands, key=len)  # has more than least, or there would not be enough images
            hand.append(richest.pop(int(torch.randint(len(richest), (), generator=generator))))
    return Partition([np.sort(np.array(hand, dtype=np.int64)) for hand in hands], found)


def _shares(clients: int, alpha: float, generator: torch.Generator) -> np.ndarray:
    """A draw from the symmetric Dirichlet distribution; beyond what can be computed, its limit."""
    shares = np.random.default_rng(generator.initial_seed()).dirichlet(np.full(clients, min(alpha, 1e12)))
    if not np.isfinite(shares).all() or not np.isclose(
        shares.sum(), 1
    ):  # α so small that all of it underflows
        shares = np.zeros(clients)
        shares[int(torch.randint(clients, (), generator=generator))] = 1.0
    return shares


def by_folder(root: str | Path) -> dict[str, LabelledImages]:
    """A folder per client, in it a subfolder per class; clients in the order of their names."""
    base = Path(root)
    if not base.is_dir():
        raise InputError(f"There is no folder {base}.", "Give a folder with one subfolder per client.")
    places = sorted(p for p in base.iterdir() if p.is_dir() and not p.name.startswith("."))
    if not places:
        raise InputError(
            f"{base} has no client folders.",
            f"As in {base / 'anna' / 'cat' / '1.jpg'}: client, class, photo.",
        )
    found: dict[str, LabelledImages] = {}
    for place in places:
        if not any(find_images(p) for p in place.iterdir() if p.is_dir() and not p.name.startswith(".")):
            why = "has photos but no class folders" if find_images(place) else "has no images"
            raise InputError(
                f"The client {place.name} in {base} {why}.",
                f"As in {place / 'cat' / '1.jpg'}: client, class, photo. Remove the folder if it is no client.",
            )
        own = found[place.name] = LabelledImages.from_folder(place)
        if len(own.classes) == 1:
            own.warnings.append(
                f"{place.name} has one class, {own.classes[0]}: it helps the classifier of all, "
                "but has nothing of its own to tell apart."
            )
    same_classes({name: images.classes for name, images in found.items()})
    return found


def same_classes(names_by_client: Mapping[str, Sequence[str]]) -> list[str]:
    """All class names, sorted; refuses names that only look different.

    Spelt differently, one class would be learned as two: case, the way accents are coded, and spaces at the ends or
    doubled are taken for slips.
    """
    first: dict[str, tuple[str, str]] = {}  # what a name reads like → its spelling, and whose it is
    for client, names in names_by_client.items():
        for name in names:
            if not isinstance(name, str) or not name.strip():
                raise InputError(f"{client} has a class called {name!r}.", "Give every class a name.")
            spelling, whose = first.setdefault(_reads_like(name), (name, client))
            if spelling != name:
                who = f"{client} has" if whose == client else f"{whose} and {client} have"
                raise InputError(
                    f"{who} classes that differ only in spelling: {_seen(spelling, name)}.",
                    "Give them the same name if they are one class, clearly different names if not.",
                )
    return sorted(spelling for spelling, _ in first.values())


def _reads_like(name: str) -> str:
    """Canonical caseless matching of the Unicode standard, and spaces as they are seen."""
    folded = unicodedata.normalize("NFD", unicodedata.normalize("NFD", name).casefold())
    return " ".join(folded.split())


def _seen(one: str, other: str) -> str:
    """Both spellings; with the codes of their characters where the eye sees no difference."""
    pair = (one, other)
    if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other):
        pair = (ascii(one)[1:-1], ascii(other)[1:-1])
    return " and ".join(f"'{name}'" for name in pair)


def _checked(labels: Sequence[int] | np.ndarray) -> np.ndarray:
    found: np.ndarray[Any, Any] = np.asarray(labels)
    if found.ndim != 1 or len(found) == 0 or not np.issubdtype(found.dtype, np.integer):
        raise InputError("There are no labels to deal out.", "Give one whole number for each image.")
    return found.astype(np.int64)


def _at_least_one(what: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{what} cannot be {value!r}.", "It is a whole number of at least 1.")


def _count(values: Sequence[int], one: str, more: str) -> str:
    low, high = min(values), max(values)
    return f"{low}{'' if low == high else f' to {high}'} {one if high == 1 else more}"
