"""Assessment without a test set: an estimate of the accuracy, the temperature and the OOD detector.

All come from leave-one-out logits (leave_one_out.py). Images that fine-tuning has seen would make the estimate too
optimistic, so it counts only those that it has not, and its interval reflects how few they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...arrays import Array, to_numpy
from ...errors import UpdateFileError
from ...heads import Head, SingularError
from ...model import Estimate, Update
from ...model.ood import MIN_SCORES, OODDetector
from ...model.predictor import log_posterior, log_prior
from .calibration import fit_temperature, log_loss
from .evaluation import Evaluation, evaluate
from .leave_one_out import LeaveOneOut, leave_one_out


@dataclass(frozen=True)
class Assessment:
    """What the support images tell about a classifier."""

    leave_one_out: LeaveOneOut  # of all images that could be held out, seen or not
    used: LeaveOneOut  # those that the fields below come from
    unseen: bool  # whether those were images that fine-tuning had not seen
    estimate: Evaluation
    temperature: float
    log_loss: tuple[float, float]  # before and after temperature scaling
    ood: OODDetector | None

    def results(self) -> dict[str, object]:
        """Return what the update file stores of it."""
        measured = self.estimate
        estimate = Estimate(measured.accuracy, measured.low, measured.high, measured.images, self.unseen)
        return estimate.stored(self.log_loss)


def assess(
    head: Head, features: Array, labels: Array, held_out: Array, log_prior: np.ndarray, *, seed: int
) -> Assessment | None:
    """Assess a head by its support images; None if no class has an image to spare.

    ``held_out`` ((N) bool) are the images that fine-tuning has not seen.
    """
    features, labels, held_out = (to_numpy(array) for array in (features, labels, held_out))
    everything = leave_one_out(head, features, labels, seed=seed)
    if len(everything) == 0:
        return None
    unseen = everything.select(held_out)
    used = unseen if len(unseen) >= MIN_SCORES else everything
    truths, classes = labels[used.index], everything.logits.shape[1]
    temperature = fit_temperature(used.logits, truths)
    before, after = (log_posterior(used.logits, log_prior, t) for t in (1.0, temperature))
    enough = len(used) >= MIN_SCORES
    return Assessment(
        leave_one_out=everything,
        used=used,
        unseen=bool(held_out[used.index].all()),
        estimate=evaluate(after.argmax(1), truths, classes),
        temperature=temperature,
        log_loss=(log_loss(before, truths), log_loss(after, truths)),
        ood=OODDetector.fit(features, labels, used.cosines, used.logits) if enough else None,
    )


def assess_update(update: Update) -> Assessment | None:
    """Assess the head of an update by the support images that it keeps."""
    support = update.support
    assert support is not None
    prior = log_prior(update.prior, update.counts)
    head = update.restore_head()
    try:
        return assess(head, support.features, support.labels, support.held_out, prior, seed=update.seed)
    except SingularError:
        raise singular_features() from None


def singular_features() -> UpdateFileError:
    """Return the error for stored features from which no head can be built."""
    return UpdateFileError(
        "No head can be built from the features that this file stores: its covariance is singular.",
        "Use an earlier version of it, or train it again.",
    )


def with_assessment(update: Update, assessment: Assessment | None) -> Update:
    """Return the update with the estimate, temperature and OOD detector of an assessment."""
    results = {k: v for k, v in update.results.items() if k != "estimate"}
    if assessment is None:
        return replace(update, results=results, ood=None, temperature=1.0)
    results["estimate"] = assessment.results()
    return replace(update, results=results, ood=assessment.ood, temperature=assessment.temperature)
