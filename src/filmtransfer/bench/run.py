"""Compute one run: sample the task, train a FewShotClassifier, and evaluate it on the test images.

The result has what the paper's tables need: accuracy, the updateable parameters by the paper's count and relative to
BiT's (RMUS), and the size of the update file.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch

from ..backbones import backbone_facts, load_backbone
from ..data import LabelledImages
from ..errors import FitWarning, InputError, check_choice
from ..estimator import FewShotClassifier
from ..seeding import make_generator, permutation
from .datasets import Dataset, load_dataset, load_vtab
from .datasets.dataset import ImageSources
from .federated_settings import is_federated
from .recipe import ESTIMATOR_KEYS, Run, is_orbit
from .rows import RunResult, RunSettings, quantity
from .run_settings import PROTOCOLS, check_shots
from .training_curve import accuracy_curve


@dataclass(frozen=True)
class BenchmarkTask:
    """Training and test images; the latter include classes without training images."""

    train: LabelledImages
    images: ImageSources  # for testing
    labels: np.ndarray  # of the test images: an index into the classes of ``train``, or −1
    notes: list[str]


def compute_result(settings: RunSettings, root: Path) -> RunResult:
    """Train and evaluate, and return what the results file stores."""
    if is_federated(settings):
        from .federated_run import run as run_federated  # needs flwr

        return run_federated(settings, root)
    if is_orbit(settings):
        from .orbit.evaluation import evaluate_task

        return evaluate_task(settings, root)
    task = draw_task(settings, root)
    clf = FewShotClassifier(
        **{k: v for k, v in settings.items() if k in ESTIMATOR_KEYS}, seed=int(settings.get("seed", 0))
    )
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # one-shot classes are part of the experiments
        if settings.get("curve"):
            curve = accuracy_curve(clf, task.train, task.images, task.labels, settings["curve"])
            if not curve:
                raise InputError(
                    "Training ended before the first step of the curve.", "Begin the curve with 0."
                )
            return {"curve": curve, "accuracy": curve[-1][1], **_counts(task), "notes": task.notes}
        clf.fit_images(task.train)
    trained = time.monotonic() - began
    correct = clf.classify(task.images, strict=True).probabilities.argmax(1) == task.labels
    update = clf.update_
    result = {
        "accuracy": float(correct.mean()),
        **_counts(task),
        **update_sizes(clf),
        "bytes": len(update.compact().to_bytes()),
        "steps": clf.history_.steps,
        "stopped": clf.history_.stopped,
        "share": update.results.get("share"),
        "loss": clf.history_.losses[-1] if clf.history_.losses else None,
        "seconds": round(trained, 1),
        "seconds_in_all": round(time.monotonic() - began, 1),
        "backbone_sha256": update.backbone_digest,
        "versions": update.versions,
        "threads": torch.get_num_threads(),
        "notes": task.notes,
    }
    if update.settings.get("adapter_options"):
        result["adapter_options"] = update.settings["adapter_options"]  # includes the subnet that NOAH chose
    if update.film:
        result["film"] = film_quantiles(update.film)
    return result


def check_backbones(runs: Iterable[Run]) -> None:
    """Raise an error, before a sweep begins, if a backbone is not available."""
    backbones = {(str(r.settings["backbone"]), r.settings.get("weights")) for r in runs}
    for name, weights in sorted(backbones, key=str):
        load_backbone(name, weights)


def draw_task(settings: RunSettings, root: Path) -> BenchmarkTask:
    """Sample the images of a run: the same for every method and backbone, different for each seed."""
    name, seed = str(settings["dataset"]), int(settings.get("seed", 0))
    protocol = settings.get("protocol", "few-shot")
    check_choice("The protocol", protocol, PROTOCOLS)
    dataset = _open(name, str(root), protocol, str(settings.get("data_split", "official")), seed)
    chosen = np.arange(len(dataset.train.labels))
    shots = settings.get("shots", "all")
    if shots != "all":
        chosen = sample_shots(dataset, name, shots, seed)
    classes = np.unique(dataset.train.labels[chosen])  # 1000 images of 397 classes do not cover all of them
    index = np.full(len(dataset.classes), -1)
    index[classes] = np.arange(len(classes))
    test = np.arange(len(dataset.test.labels))
    if (limit := int(settings.get("test_images", 0))) and limit < len(test):
        order = permutation(len(test), make_generator(0, "test images", name)).numpy()
        test = np.sort(order[:limit])
    return BenchmarkTask(
        LabelledImages(
            [dataset.train.sources[int(i)] for i in chosen],
            index[dataset.train.labels[chosen]].tolist(),
            [dataset.classes[c] for c in classes],
        ),
        dataset.test.select(test).sources,
        index[dataset.test.labels[test]],
        list(dataset.notes),
    )


def sample_shots(dataset: Dataset, name: str, shots: int, seed: int) -> np.ndarray:
    """Return the indices of ``shots`` images of each class; those of fewer shots are a subset of those of more."""
    check_shots(shots)
    labels = dataset.train.labels
    kept = []
    for c in range(len(dataset.classes)):
        members = np.flatnonzero(labels == c)
        if len(members) < shots:
            raise InputError(
                f"{name} has {quantity(len(members), 'training image')} of {dataset.classes[c]}, "
                f"but {quantity(shots, 'shot')} {'is' if shots == 1 else 'are'} required.",
                "Choose fewer shots, or 'all'.",
            )
        order = permutation(len(members), make_generator(seed, "shots", name, c)).numpy()
        kept.append(members[order[:shots]])
    return np.concatenate(kept)


def update_sizes(clf: FewShotClassifier) -> dict[str, float]:
    """Return the updateable parameters by the paper's count (its table of parameters), and relative to BiT's."""
    update = clf.update_
    counted, full = update.updateable(backbone_facts(clf.backbone))
    body = sum(t.size for t in update.parameters.values())
    return {
        "numbers": counted,
        "stored_numbers": update.stored_parameters(),
        "body": body,
        "rmus": counted / full,
    }


def film_quantiles(film: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Return the 0, ¼, ½, ¾ and 1 quantiles of |γ − 1| and |β| at each site, for box plots."""
    changes = {name: np.abs(v - float(name.endswith("gamma"))) for name, v in film.items()}
    levels = [0, 0.25, 0.5, 0.75, 1.0]
    return {name: np.quantile(change, levels).round(6).tolist() for name, change in changes.items()}


def _counts(task: BenchmarkTask) -> dict[str, int]:
    return {"images": len(task.train), "classes": len(task.train.classes), "test_images": len(task.images)}


@lru_cache(maxsize=4)
def _open(name: str, root: str, protocol: str, split: str, seed: int) -> Dataset:
    if protocol == "vtab":
        return load_vtab(name, Path(root), split=split, seed=seed)  # type: ignore[arg-type]  # load_vtab checks it
    return load_dataset(name, Path(root), split=split, seed=seed)  # type: ignore[arg-type]  # load_dataset checks it
