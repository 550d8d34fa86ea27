"""Collect the data of a report from a classifier and from what a recorder observed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..backbones import backbone_facts
from ..errors import FitError
from ..estimator import FALSE_ALARM, Classified, FewShotClassifier
from ..heads import log_prior
from ..model import Update
from .pictures import PhotoRecorder
from .report_data import OODPhotos, PhotoPredictions, ReportData, ReportPhotos, SupportPhotos


def collect_training(clf: FewShotClassifier, recorder: PhotoRecorder, file: str | Path) -> ReportData:
    """Collect the data of a training that ``clf.fit_images(images, look=recorder.on_training)`` has just finished."""
    update, assessment = clf.update_, clf.judgement_
    predictions = headline = None
    held_out = torch.zeros(len(recorder.names), dtype=torch.bool)
    if assessment is not None:
        prior = _log_prior(update)
        predictions, headline = (
            PhotoPredictions(
                part.index, recorder.labels[part.index], part.logits + prior, assessment.temperature
            )
            for part in (assessment.left, assessment.used)
        )
        held_out[assessment.used.index] = True
    return ReportData(
        kind="train",
        title=Path(file).stem,
        classes=[str(name) for name in update.classes],
        photos=_photos(recorder, recorder.labels, recorder.features),
        predictions=predictions,
        headline=headline,
        unseen=assessment is not None and assessment.unseen,
        support=SupportPhotos(recorder.features, recorder.labels, held_out, recorder.names),
        head=clf.model_.head,
        update=update,
        sites=_sites(update),
        skipped=clf.skipped_,
        seconds=clf.history_.seconds,
        file_bytes=_file_bytes(file),
    )


def collect_test(
    clf: FewShotClassifier,
    recorder: PhotoRecorder,
    labels: Tensor,
    classified: Classified,
    file: str | Path,
    ood: OODPhotos | None = None,
) -> ReportData:
    """Collect the data of test photos that ``clf.classify(images, look=recorder.on_images)`` has classified.

    ``labels`` are the indices of their classes.
    """
    update, support = clf.update_, clf.update_.support
    with torch.no_grad():
        logits = clf.model_.head.logits(classified.features).cpu().double() + _log_prior(update)
    predictions = PhotoPredictions(torch.arange(len(labels)), labels, logits, update.temperature)
    return ReportData(
        kind="test",
        title=Path(file).stem,
        classes=[str(name) for name in update.classes],
        photos=_photos(recorder, labels, classified.features.cpu()),
        predictions=predictions,
        headline=predictions,
        unseen=True,
        support=None
        if support is None
        else SupportPhotos(
            support.features, support.labels, torch.zeros(len(support), dtype=torch.bool), support.names
        ),
        head=clf.model_.head,
        update=update,
        sites=_sites(update),
        skipped=classified.skipped,
        file_bytes=_file_bytes(file),
        ood=ood,
    )


def collect_ood(
    clf: FewShotClassifier,
    recorder: PhotoRecorder,
    classified: Classified,
    test: Classified,
    false_alarm: float = FALSE_ALARM,
) -> OODPhotos:
    """Collect the scores of out-of-distribution photos and of test photos; the classifier must be able to reject."""
    clf.rejected(classified, false_alarm)  # raises an error if it cannot
    unknown = clf.update_.unknown
    assert unknown is not None
    predicted = torch.from_numpy(classified.probabilities.argmax(1))
    return OODPhotos(
        photos=_photos(recorder, predicted, classified.features.cpu()),
        scores=clf.nearness(classified),
        known_scores=clf.nearness(test),
        threshold=unknown.threshold(false_alarm),
        false_alarm=false_alarm,
    )


def _photos(recorder: PhotoRecorder, labels: Tensor, features: Tensor) -> ReportPhotos:
    return ReportPhotos(recorder.names, labels, features, recorder.thumbnails, recorder.digests)


def _log_prior(update: Update) -> Tensor:
    stored: Any = update.settings.get("prior", "uniform")
    prior: Any = stored if isinstance(stored, str) else torch.tensor(stored, dtype=torch.float64)
    return log_prior(prior, torch.tensor(update.counts))


def _sites(update: Update) -> list[str]:
    """Return the FiLM layers in the order of the network, or of the file if the backbone is not in the catalogue."""
    trained = list(dict.fromkeys(name.rpartition(".")[0] for name in update.film))
    try:
        order = backbone_facts(update.backbone).site_names
    except FitError:
        return trained
    return [site for site in order if site in trained]


def _file_bytes(file: str | Path) -> int | None:
    path = Path(file)
    return path.stat().st_size if path.is_file() else None
