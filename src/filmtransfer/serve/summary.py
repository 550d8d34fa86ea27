"""The summary of a version: what the store keeps of an update, so that the API need not read the file."""

from __future__ import annotations

from ..errors import InputError
from ..model import Estimate, Update
from ..model.estimate import leave_one_out_basis
from .store import JsonObject, Quota
from .store.rows import refuse_over
from .store.values import clean_name

TRAINING = ("steps", "share")  # results that tell whether there was fine-tuning


def summarise_update(update: Update) -> JsonObject:
    """Return the classes of an update, with their numbers of photos, and its estimate; its file may be of anyone."""
    estimate = update.estimate  # an error if the file stores a damaged one
    return {
        "classes": {str(name): count for name, count in zip(update.classes, update.counts, strict=True)},
        "estimate": None if estimate is None else estimate.stored(),
        **{k: v for k, v in update.results.items() if k in TRAINING and isinstance(v, int | float)},
    }


def check_classes(update: Update, quota: Quota) -> None:
    """Refuse an uploaded update with more classes than a user may have, or with names that a class cannot have."""
    refuse_over("classes", len(update.classes), quota.classes)
    names = [clean_name("class", str(name)) for name in update.classes]
    if len(set(names)) < len(names):
        raise InputError("Two classes of this file have the same name.", "Rename one with 'fit edit rename'.")


def accuracy_fields(summary: JsonObject) -> JsonObject:
    """Return the estimate of a version as the API shows it, and its figures under their former names."""
    estimate = Estimate.read(summary)
    public = None if estimate is None else estimate.to_dict()
    figures = {name: None if public is None else public[name] for name in ("accuracy", "low", "high")}
    return {"estimate": public, **figures}


def assessment_fields(summary: JsonObject) -> JsonObject:
    """Return how many photos the confusion matrix counts, how many of them fine-tuning had not seen, and both in words."""
    estimate, images = Estimate.read(summary), sum(map(sum, summary["confusion"]))
    if estimate is None:
        return {"images": images, "unseen_images": 0, "text": "No class has a second photo to test it on."}
    unseen = estimate.images if estimate.unseen else 0
    basis = leave_one_out_basis(images, unseen, estimate.fine_tuned)
    return {"images": images, "unseen_images": unseen, "text": f"Measured on {basis}."}
