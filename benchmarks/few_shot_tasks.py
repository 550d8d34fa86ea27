"""The few-shot tasks of the benchmarks, from ``<data>/<name>.npz`` or ``<data>/<name>/{train,test}/<class>/``.

The datasets are not part of this repository (licences); ``--data`` names their folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from filmtransfer.data import LabelledImages, PixelSpec, load

# The number of classes drawn (per seed) from a dataset with too many for two cores.
WAYS = {"quickdraw": 20}


@dataclass(frozen=True)
class Task:
    """A few-shot task: training images and held-out images."""

    name: str
    learn: LabelledImages
    held_out: LabelledImages


@dataclass(frozen=True)
class ImageTensors:
    """Decoded images, uint8 (N, 3, S, S), and their labels (N)."""

    pixels: torch.Tensor
    labels: torch.Tensor


def load_tensors(images: LabelledImages, spec: PixelSpec) -> ImageTensors:
    """Decode images to tensors."""
    loaded = load(images, spec)
    return ImageTensors(torch.from_numpy(loaded.pixels), torch.from_numpy(loaded.labels))


def task(data: Path, name: str, shots: int, seed: int, test: int) -> Task:
    """Draw ``shots`` training images per class with ``seed``; the ``test`` held-out images are the same for every seed.

    Where classes are drawn too, all images are of the classes of the seed.
    """
    (train_x, train_y), (test_x, test_y), classes = read_dataset(data, name)
    rng = np.random.default_rng([seed, 4711])
    kept = np.arange(len(classes))
    if name in WAYS:
        kept = np.sort(rng.choice(len(classes), WAYS[name], replace=False))
    chosen = [rng.permutation(np.flatnonzero(train_y == c))[:shots] for c in kept]
    pool = np.flatnonzero(np.isin(test_y, kept))
    held_out = np.random.default_rng(4711).permutation(pool)[:test]

    def select(x: Any, y: np.ndarray, indices: np.ndarray) -> LabelledImages:
        index = {c: i for i, c in enumerate(kept)}
        return LabelledImages(
            [x[i] for i in indices], [index[y[i]] for i in indices], [classes[c] for c in kept]
        )

    return Task(name, select(train_x, train_y, np.concatenate(chosen)), select(test_x, test_y, held_out))


def read_dataset(data: Path, name: str) -> Any:
    """Return (images, labels) for training and for testing, and the class names."""
    packed = data / f"{name}.npz"
    if packed.exists():
        arrays = np.load(packed)
        classes = [str(c) for c in arrays["classes"]]
        return (arrays["train_x"], arrays["train_y"]), (arrays["test_x"], arrays["test_y"]), classes
    parts = [LabelledImages.from_folder(data / name / part) for part in ("train", "test")]
    return *((p.sources, np.array(p.labels)) for p in parts), parts[0].classes
