"""Thousands of users for serving.py: a few trained updates, and for each user a copy of one of them with perturbed FiLM
parameters and its own class names, so that the predictions of different users can be distinguished."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image

from filmtransfer.data import LabelledImages
from filmtransfer.data.sample import sample_drawings
from filmtransfer.model import Update
from filmtransfer.seeding import numpy_generator
from filmtransfer.serve.store import ProjectId, Store, StoreLocation

BACKBONE = "efficientnet_lite0"
SETS = ("cifar10", "eurosat", "oxford_pets")
WAYS, SHOTS, STEPS = 10, 5, 10


@dataclass(frozen=True)
class Users:
    """A store with users: the ids of their projects and their tokens in order. Each project has one version, number 1."""

    folder: Path
    ids: list[ProjectId]
    tokens: list[str]

    def open(self) -> Store:
        """Open the store."""
        return Store.open(StoreLocation.of(self.folder))


def make_users(
    folder: Path, count: int, data: Path | None, log: Callable[[str], None], *, support: bool = True
) -> Users:
    """Fill a store, or continue with an existing one; without ``support`` the updates have no support features."""
    (folder / "objects").mkdir(parents=True, exist_ok=True)
    listed = folder / "users.jsonl"
    existing = [json.loads(line) for line in listed.read_text().splitlines()] if listed.exists() else []
    if len(existing) < count:
        bases = [one if support else replace(one, support=None) for one in trained(folder.parent, data, log)]
        with without_fsync(), listed.open("a") as file:
            store = Store.open(StoreLocation.of(folder))
            for number in range(len(existing), count):
                user, token = store.users.create(f"user {number}")
                project = store.projects.resolve(user.id)
                store.versions.publish(project, personal(bases[number % len(bases)], number), "uploaded", {})
                existing.append([project, token])
                file.write(json.dumps(existing[-1]) + "\n")
                if number % 500 == 0:
                    log(f"{number} users")
            store.close()
    ids, tokens = zip(*existing[:count], strict=True)
    return Users(folder, list(ids), list(tokens))


@contextmanager
def without_fsync() -> Iterator[None]:
    """Do not wait for the disk: these users can be created again, and there are many."""
    pragmas = ("synchronous=OFF", "foreign_keys=ON")
    with patch("os.fsync", lambda _: None), patch("filmtransfer.serve.store.database._PRAGMAS", pragmas):
        yield


def trained(folder: Path, data: Path | None, log: Callable[[str], None]) -> list[Update]:
    """Return the trained updates, which are stored in the folder."""
    updates = []
    for file in base_files(folder, data):
        if not file.exists():
            from filmtransfer import FewShotClassifier  # imports torch, which the measured processes do not

            log(f"training on {file.stem}")
            classifier = FewShotClassifier(backbone=BACKBONE, steps=STEPS)
            classifier.fit_images(images(data, file.stem)).save(file)
        updates.append(Update.load(file))
    return updates


def base_files(folder: Path, data: Path | None) -> list[Path]:
    """Return the files of the trained updates."""
    return [folder / f"{name}.safetensors" for name in (SETS if data else ("sample",))]


def export_folded(folder: Path, data: Path | None) -> Path:
    """Return the exported graph of the first trained update, with γ and β folded into the weights."""
    file = base_files(folder, data)[0]
    graph = file.with_suffix(".onnx")
    if not graph.exists():
        command = [sys.executable, "-m", "filmtransfer", "export", str(file), "--onnx", str(graph)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return graph


def images(data: Path | None, name: str) -> LabelledImages:
    """Return ten classes with a few images each."""
    if data:
        from few_shot_tasks import task  # imports torch

        complete = task(data, name, SHOTS, 0, 1).learn
    else:
        complete = sample_drawings(SHOTS, 0)[0]
    kept = [i for i, label in enumerate(complete.labels) if label < WAYS]
    return LabelledImages(
        [complete.sources[i] for i in kept], [complete.labels[i] for i in kept], complete.classes[:WAYS]
    )


def personal(base: Update, number: int) -> bytes:
    """Return the update of user ``number``."""
    generator = numpy_generator(number, "personal")
    body = {
        name: value + np.float32(0.02) * generator.standard_normal(value.shape, dtype=np.float32)
        for name, value in base.parameters.items()
    }
    return replace(base, parameters=body, classes=[f"{name} of {number}" for name in base.classes]).to_bytes()


def photos(data: Path | None, count: int) -> list[bytes]:
    """Return image files for the requests."""
    if data:
        files = sorted((data / "oxford_pets" / "test").rglob("*.jpg"))
        return [file.read_bytes() for file in files[:: max(len(files) // count, 1)][:count]]
    contents = []
    for drawing in sample_drawings(SHOTS, 0)[1].sources[:count]:
        assert isinstance(drawing, np.ndarray)
        file = BytesIO()
        Image.fromarray(drawing).save(file, "PNG")
        contents.append(file.getvalue())
    return contents
