"""The image sets that the benchmarks measure on: ``<data>/<name>.npz`` or ``<data>/<name>/{train,test}/<class>/``.

They are not part of this repository (licences); ``--data`` names their folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from filmtransfer.data import LabelledImages

# Way: how many classes are drawn (per seed) from a set with too many for two cores.
WAYS = {"quickdraw": 20}


@dataclass(frozen=True)
class Task:
    """A few-shot task: images to learn from, and images to be tried on."""

    name: str
    learn: LabelledImages
    held_out: LabelledImages


def task(data: Path, name: str, shots: int, seed: int, test: int) -> Task:
    """``shots`` images per class drawn by ``seed``; the same ``test`` held-out images for every
    seed of a set (of the seed's classes, where classes are drawn)."""
    (train_x, train_y), (test_x, test_y), classes = _read(data, name)
    rng = np.random.default_rng([seed, 4711])
    kept = np.arange(len(classes))
    if name in WAYS:
        kept = np.sort(rng.choice(len(classes), WAYS[name], replace=False))
    chosen = [rng.permutation(np.flatnonzero(train_y == c))[:shots] for c in kept]
    pool = np.flatnonzero(np.isin(test_y, kept))
    tried = np.random.default_rng(4711).permutation(pool)[:test]

    def pick(x: Any, y: np.ndarray, indices: np.ndarray) -> LabelledImages:
        place = {c: i for i, c in enumerate(kept)}
        return LabelledImages(
            [x[i] for i in indices], [place[y[i]] for i in indices], [classes[c] for c in kept]
        )

    return Task(name, pick(train_x, train_y, np.concatenate(chosen)), pick(test_x, test_y, tried))


def _read(data: Path, name: str) -> Any:
    packed = data / f"{name}.npz"
    if packed.exists():
        arrays = np.load(packed)
        classes = [str(c) for c in arrays["classes"]]
        return (arrays["train_x"], arrays["train_y"]), (arrays["test_x"], arrays["test_y"]), classes
    parts = [LabelledImages.from_folder(data / name / part) for part in ("train", "test")]
    return *((p.sources, np.array(p.labels)) for p in parts), parts[0].classes
