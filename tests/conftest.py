"""One thread, no network, real weights loaded once."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["JOBLIB_MULTIPROCESSING"] = "0"  # else each process that is killed leaves semaphores behind
os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest_plugins = ("tests.suite", "tests.sharing")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def photo_folder(tmp_path: Path) -> Callable[..., Path]:
    """Makes a folder per class of small pictures that a classifier can tell apart."""

    def make(
        name: str = "photos", classes: tuple[str, ...] = ("disc", "bars", "plain"), shots: int = 4
    ) -> Path:
        root = tmp_path / name
        for c, label in enumerate(classes):
            (root / label).mkdir(parents=True)
            for i in range(shots):
                picture(c, 100 * c + i).save(root / label / f"{i}.png")
        return root

    return make


def picture(kind: int, seed: int, size: int = 40) -> Image.Image:
    """A noisy disc, bars or plain colour: real pixels, made here."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:size, :size] / size
    if kind % 3 == 0:
        shape = ((x - 0.5) ** 2 + (y - 0.5) ** 2 < rng.uniform(0.06, 0.14)) * 200.0
    elif kind % 3 == 1:
        shape = (np.sin(x * rng.uniform(30, 45)) > 0) * 200.0
    else:
        shape = np.full((size, size), 100.0)
    tint = np.array([[1.0, 0.4, 0.3], [0.3, 1.0, 0.4], [0.4, 0.3, 1.0]])[kind % 3]
    pixels = shape[..., None] * tint + rng.normal(20, 12, (size, size, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
