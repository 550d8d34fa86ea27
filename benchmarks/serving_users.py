"""Thousands of users for serving.py: a few really trained updates, and for each user one of them with FiLM numbers moved
a little and class names of its own, so that everyone's answers are their own and can be told from all others'."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

import torch
from PIL import Image

from filmtransfer import FewShotClassifier
from filmtransfer.data import LabelledImages
from filmtransfer.data.sample import sample_drawings
from filmtransfer.model import Update
from filmtransfer.seeding import make_generator
from filmtransfer.serve.store import Store, StoreLocation
from sets import task

SETS = ("cifar10", "eurosat", "oxford_pets")
WAYS, SHOTS, STEPS = 10, 5, 10


@dataclass(frozen=True)
class Users:
    """A store with users in it: their ids and tokens in order. Each has one version, number 1."""

    folder: Path
    ids: list[str]
    tokens: list[str]

    def open(self) -> Store:
        return Store.open(StoreLocation.of(self.folder))


def make_users(folder: Path, count: int, data: Path | None, say: Callable[[str], None]) -> Users:
    """Fill a store, or go on filling the one that is there."""
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    listed = folder / "users.jsonl"
    there = [json.loads(line) for line in listed.read_text().splitlines()] if listed.exists() else []
    if len(there) < count:
        bases = trained(folder, data, say)
        with careless(), listed.open("a") as file:
            store = Store.open(StoreLocation.of(folder))
            for number in range(len(there), count):
                user, token = store.users.create(f"user {number}")
                store.versions.publish(user.id, personal(bases[number % len(bases)], number), "uploaded", {})
                there.append([user.id, token])
                file.write(json.dumps(there[-1]) + "\n")
                if number % 500 == 0:
                    say(f"{number} users")
            store.close()
    there = there[:count]
    return Users(folder, [one[0] for one in there], [one[1] for one in there])


@contextmanager
def careless() -> Iterator[None]:
    """Do not wait for the disk: these users are not precious, and there are many."""
    pragmas = ("synchronous=OFF", "foreign_keys=ON")
    with patch("os.fsync", lambda _: None), patch("filmtransfer.serve.store.database._PRAGMAS", pragmas):
        yield


def trained(folder: Path, data: Path | None, say: Callable[[str], None]) -> list[Update]:
    """The really trained ones, kept in the folder."""
    found = []
    for name in SETS if data else ("sample",):
        file = folder / f"{name}.safetensors"
        if not file.exists():
            say(f"training on {name}")
            classifier = FewShotClassifier(steps=STEPS, keep_statistics=True)
            classifier.fit_images(images(data, name)).save(file)
        found.append(Update.load(file))
    return found


def images(data: Path | None, name: str) -> LabelledImages:
    """Ten classes with a few images each."""
    whole = task(data, name, SHOTS, 0, 1).learn if data else sample_drawings(SHOTS, 0)[0]
    kept = [i for i, label in enumerate(whole.labels) if label < WAYS]
    return LabelledImages(
        [whole.sources[i] for i in kept], [whole.labels[i] for i in kept], whole.classes[:WAYS]
    )


def personal(base: Update, number: int) -> bytes:
    """User ``number``'s own update."""
    generator = make_generator(number, "personal")
    body = {k: v + 0.02 * torch.randn(v.shape, generator=generator) for k, v in base.parameters.items()}
    return replace(base, parameters=body, classes=[f"{name} of {number}" for name in base.classes]).to_bytes()


def photos(data: Path | None, count: int) -> list[bytes]:
    """Image files to ask about."""
    if data:
        files = sorted((data / "oxford_pets" / "test").rglob("*.jpg"))
        return [file.read_bytes() for file in files[:: max(len(files) // count, 1)][:count]]
    found = []
    for drawing in sample_drawings(SHOTS, 0)[1].sources[:count]:
        file = BytesIO()
        Image.fromarray(drawing).save(file, "PNG")
        found.append(file.getvalue())
    return found
