"""A data folder, a recipe and workers small enough to run a complete sweep in a test."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from filmtransfer.bench.recipe import Run
from filmtransfer.bench.sweep import RunOutcome, attempt_run
from filmtransfer.data.sample import sample_drawings

SETTINGS: dict[str, Any] = {
    "dataset": "drawings",
    "method": "FiT-LDA",
    "head": "lda",
    "seed": 0,
    "shots": 2,
    "backbone": "efficientnet_lite0",
    "image_size": 48,
    "train_size": 48,
    "steps": 1,
}

RECIPE = """# fit bench run tiny.toml
# Eight runs of a second each.

[experiment]
name = "tiny"
title = "Tiny"
table = "few_shot"
figures = ["shots"]

[sweep]
dataset = ["drawings"]
shots = [1, 2]
method = ["Frozen-LDA", "FiT-LDA"]
seed = [0, 1]

[settings]
backbone = "efficientnet_lite0"
image_size = 48
train_size = 48
steps = 1
"""


def make_set(root: Path, name: str = "drawings", *, classes: int = 5, train: int = 4, test: int = 6) -> Path:
    """Drawings of the package as ``root/name.npz``."""
    learn, others = sample_drawings(train, 0)
    tried = [i for c in range(classes) for i in [k for k, y in enumerate(others.labels) if y == c][:test]]
    learned = [i for i, y in enumerate(learn.labels) if y < classes]
    root.mkdir(parents=True, exist_ok=True)
    np.savez(
        root / f"{name}.npz",
        train_x=np.stack([learn.sources[i] for i in learned]),
        train_y=np.array([learn.labels[i] for i in learned]),
        test_x=np.stack([others.sources[i] for i in tried]),
        test_y=np.array([others.labels[i] for i in tried]),
        classes=np.array(learn.classes[:classes]),
    )
    return root


def make_recipe(folder: Path, text: str = RECIPE) -> Path:
    file = folder / "tiny.toml"
    file.write_text(text, encoding="utf-8")
    return file


class HereWorkers:
    """Computes in this process, one run after the other; ``outcomes`` replaces the outcomes."""

    def __init__(
        self, root: Path | None = None, outcomes: Mapping[str, list[RunOutcome]] | None = None
    ) -> None:
        self.slots = 2
        self.root = root
        self.outcomes = outcomes or {}
        self.waiting: deque[Run] = deque()
        self.started: list[str] = []
        self.closed = 0

    def start(self, run: Run) -> None:
        assert len(self.waiting) < self.slots, "more runs than there are slots"
        self.waiting.append(run)
        self.started.append(run.key)

    def next(self) -> RunOutcome:
        run = self.waiting.popleft()
        if self.root is not None:
            return attempt_run(run, self.root)
        if self.outcomes.get(run.key):
            return self.outcomes[run.key].pop(0)
        return RunOutcome(run, result={"accuracy": 0.5})

    def close(self) -> None:
        self.closed += 1


def wait_until(true: Callable[[], object]) -> None:
    """Return as soon as the condition is true; fail after a generous time limit."""
    deadline = time.monotonic() + 120
    while not true():
        assert time.monotonic() < deadline, "the condition never became true"
        time.sleep(0.02)


def row(accuracy: float = 0.5, method: str = "FiT-LDA", seed: int = 0, **more: Any) -> dict[str, Any]:
    """Return a synthetic row; ``result`` extends its result, all other arguments its settings."""
    result = {
        "accuracy": accuracy, "numbers": 32140, "body": 11648, "bytes": 130123, "rmus": 0.0014, "images": 10,
        "test_images": 300, "steps": 30, "seconds": 12.5, "seconds_in_all": 20.0, **more.pop("result", {}),
    }  # fmt: skip
    settings = {"dataset": "cifar10", "backbone": "efficientnet_lite0", "shots": 5, **more}
    return {
        "version": 1,
        "key": "0",
        "settings": {"method": method, "seed": seed, **settings},
        "result": result,
    }
