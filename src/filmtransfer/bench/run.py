"""One run: draw the task, train through the front door, try the classifier on the test images.

What is recorded is what the paper's tables need: accuracy, the updateable numbers by the paper's count and
relative to BiT's (RMUS), and the bytes of the update as it is stored.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..backbones import backbone_facts, load_backbone
from ..data import LabelledImages
from ..errors import FitWarning, InputError, UsageError, invalid_choice
from ..estimator import FewShotClassifier
from ..seeding import make_generator, permutation
from .datasets import Dataset, load_dataset, load_vtab
from .federations import is_federated
from .learning_curve import accuracy_curve
from .recipe import CHOICES, Run, is_orbit

PROTOCOLS = ("few-shot", "vtab", "federated")


@dataclass(frozen=True)
class BenchmarkTask:
    """Images to learn from, and images to be tried on; classes nobody can learn are in the test images too."""

    learn: LabelledImages
    images: Sequence[Any] | np.ndarray
    labels: np.ndarray  # of the test images: an index into the learned classes, −1 where there is none
    notes: list[str]


def compute_result(settings: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Do it, and say how it went."""
    if is_federated(settings):
        from .federated_run import run as run_federated  # needs flwr

        return run_federated(settings, root)
    if is_orbit(settings):
        from .orbit.evaluation import evaluate_task

        return evaluate_task(settings, root)
    task = draw_task(settings, root)
    clf = FewShotClassifier(
        **{k: v for k, v in settings.items() if k in CHOICES}, seed=int(settings.get("seed", 0))
    )
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # one-shot classes and the like are the experiment
        if settings.get("curve"):
            curve = accuracy_curve(clf, task.learn, task.images, task.labels, settings["curve"])
            if not curve:
                raise InputError("Training ended before the first step of the curve.", "Begin it with 0.")
            return {"curve": curve, "accuracy": curve[-1][1], **_counts(task), "notes": task.notes}
        clf.fit_images(task.learn)
    trained = time.monotonic() - began
    right = clf.classify(task.images, strict=True).probabilities.argmax(1) == task.labels
    update = clf.update_
    result = {
        "accuracy": float(right.mean()),
        **_counts(task),
        **update_sizes(clf),
        "bytes": len(update.to_bytes()),
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
        result["adapter_options"] = update.settings["adapter_options"]  # with the subnet that NOAH found
    if update.film:
        result["film"] = film_quantiles(update.film)
    return result


def check_backbones(runs: Iterable[Run]) -> None:
    """Say before a sweep, and once, that a backbone is not to be had."""
    wanted = {(str(r.settings["backbone"]), r.settings.get("weights")) for r in runs}
    for name, weights in sorted(wanted, key=str):
        load_backbone(name, weights)


def draw_task(settings: Mapping[str, Any], root: Path) -> BenchmarkTask:
    """The task of a run that is not federated: the same for every method and backbone, another for each seed."""
    name, seed = str(settings["dataset"]), int(settings.get("seed", 0))
    protocol = settings.get("protocol", "few-shot")
    if protocol not in PROTOCOLS:
        raise invalid_choice("The protocol", protocol, PROTOCOLS)
    found = _open(name, str(root), protocol, str(settings.get("data_split", "official")), seed)
    chosen = np.arange(len(found.train.labels))
    shots = settings.get("shots", "all")
    if shots != "all":
        chosen = sample_shots(found, name, shots, seed)
    learned = np.unique(found.train.labels[chosen])  # of 1000 images of 397 classes some classes have none
    place = np.full(len(found.classes), -1)
    place[learned] = np.arange(len(learned))
    tried = np.arange(len(found.test.labels))
    if (limit := int(settings.get("test_images", 0))) and limit < len(tried):
        order = permutation(len(tried), make_generator(0, "test images", name)).numpy()
        tried = np.sort(order[:limit])
    return BenchmarkTask(
        LabelledImages(
            [found.train.sources[int(i)] for i in chosen],
            place[found.train.labels[chosen]].tolist(),
            [found.classes[c] for c in learned],
        ),
        found.test.select(tried).sources,
        place[found.test.labels[tried]],
        list(found.notes),
    )


def sample_shots(found: Dataset, name: str, shots: Any, seed: int) -> np.ndarray:
    """``shots`` images of each class; those of fewer shots are among those of more."""
    if not isinstance(shots, int) or isinstance(shots, bool) or shots < 1:
        raise UsageError(f"shots cannot be {shots!r}.", "It is a whole number of at least 1, or 'all'.")
    labels = found.train.labels
    kept = []
    for c in range(len(found.classes)):
        members = np.flatnonzero(labels == c)
        if len(members) < shots:
            raise InputError(
                f"{name} has {len(members)} training images of {found.classes[c]}, but {shots} shots were asked for.",
                "Ask for fewer shots, or for 'all'.",
            )
        order = permutation(len(members), make_generator(seed, "shots", name, c)).numpy()
        kept.append(members[order[:shots]])
    return np.concatenate(kept)


def update_sizes(clf: FewShotClassifier) -> dict[str, Any]:
    """Updateable numbers by the paper's count (its table of parameters), and relative to BiT's."""
    update = clf.update_
    counted, full = update.updateable(backbone_facts(clf.backbone))
    body = sum(t.numel() for t in update.parameters.values())
    return {
        "numbers": counted,
        "stored_numbers": update.stored_parameters(),
        "body": body,
        "rmus": counted / full,
    }


def film_quantiles(film: Mapping[str, torch.Tensor]) -> dict[str, list[float]]:
    """0, ¼, ½, ¾ and 1 quantiles of |γ − 1| and |β| at each site: what a box plot shows."""
    at = torch.tensor([0, 0.25, 0.5, 0.75, 1.0])
    return {
        name: [round(q, 6) for q in torch.quantile((v - float(name.endswith("gamma"))).abs(), at).tolist()]
        for name, v in film.items()
    }


def _counts(task: BenchmarkTask) -> dict[str, int]:
    return {
        "images": len(task.learn),
        "classes": len(task.learn.classes),
        "test_images": len(task.images),
    }


@lru_cache(maxsize=4)
def _open(name: str, root: str, protocol: str, split: Any, seed: int) -> Dataset:
    if protocol == "vtab":
        return load_vtab(name, Path(root), split=split, seed=seed)
    return load_dataset(name, Path(root), split=split, seed=seed)
