"""Collect the data of a report from a classifier and from what a recorder observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..errors import FitError
from ..model import FeaturePredictor, Update
from ..model.classification import Classified
from ..model.ood import FALSE_ALARM
from ..model.support import Support, no_statistics
from ..training.assess.assessment import Assessment, assess_update
from .pictures import PhotoRecorder
from .report_data import OODPhotos, PhotoPredictions, ReportData, ReportPhotos

if TYPE_CHECKING:
    from ..estimator import FewShotClassifier


class Classifier(Protocol):
    """What a report needs of a classifier, with torch or without."""

    @property
    def update_(self) -> Update:
        """What was learned."""
        ...

    @property
    def predictor_(self) -> FeaturePredictor:
        """What turns features into probabilities."""
        ...


def collect_training(clf: FewShotClassifier, recorder: PhotoRecorder, file: str | Path) -> ReportData:
    """Collect the data of a training that had ``recorder.on_training`` as its ``on_fitted`` callback."""
    kept = clf.update_.support
    photos = _photos(recorder, recorder.labels, recorder.features, [] if kept is None else kept.digests)
    report = _assessed(clf.update_, clf.predictor_, clf.assessment_, photos, file)
    return report(skipped=clf.skipped_, seconds=clf.history_.seconds)


def collect_update(file: str | Path, thumbnails: Mapping[str, bytes]) -> ReportData:
    """Collect the data of an update file that keeps its statistics, long after its training.

    ``thumbnails`` are JPEG files by the digest of the photo that they show. A photo without one, since it was deleted,
    counts in every figure, is shown blank, and the report says so.
    """
    update = Update.load(file)
    support = update.support
    if support is None:
        raise no_statistics("there can be no report of it")
    pictures = [thumbnails.get(digest, b"") for digest in support.digests]
    digests = (
        support.digests
    )  # those of the pixels are unknown: only copies of a file are known to be identical
    photos = ReportPhotos(support.names, support.labels, support.features, pictures, digests, digests)
    report = _assessed(update, update.predictor(), assess_update(update), photos, file)
    return report(deleted=pictures.count(b""))


def collect_test(
    clf: Classifier,
    recorder: PhotoRecorder,
    labels: np.ndarray,
    classified: Classified,
    file: str | Path,
    ood: OODPhotos | None = None,
) -> ReportData:
    """Collect the data of test photos that ``clf.classify(images, on_images=recorder.on_images)`` has classified.

    ``labels`` are the indices of their classes.
    """
    index, logits = np.arange(len(labels)), classified.predictions.logits
    predictions = PhotoPredictions(index, labels, logits, clf.predictor_)
    return _report(clf.update_, clf.predictor_, file)(
        kind="test",
        photos=_photos(recorder, labels, classified.predictions.features),
        predictions=predictions,
        headline=predictions,
        unseen=True,
        support=clf.update_.support,
        skipped=classified.skipped,
        ood=ood,
    )


def collect_ood(
    clf: Classifier,
    recorder: PhotoRecorder,
    classified: Classified,
    test: Classified,
    false_alarm: float = FALSE_ALARM,
) -> OODPhotos:
    """Collect the scores of out-of-distribution photos and of test photos; the classifier must be able to reject."""
    predictor, predictions = clf.predictor_, classified.predictions
    scores = predictor.ood_scores(predictions)  # an error if the classifier cannot reject
    assert predictor.ood is not None
    return OODPhotos(
        photos=_photos(recorder, predictions.labels, predictions.features),
        scores=scores,
        known_scores=predictor.ood_scores(test.predictions),
        threshold=predictor.ood.threshold(false_alarm),
        false_alarm=false_alarm,
    )


def _photos(
    recorder: PhotoRecorder, labels: np.ndarray, features: np.ndarray, contents: Sequence[str] = ()
) -> ReportPhotos:
    thumbnails, digests = recorder.thumbnails, recorder.digests
    return ReportPhotos(recorder.names, labels, features, thumbnails, digests, list(contents))


def _sites(update: Update) -> list[str]:
    """Return the FiLM layers in the order of the network, or of their names if the backbone is not in the catalogue."""
    from ..backbones import backbone_facts

    trained = sorted({name.rpartition(".")[0] for name in update.film})
    try:
        order = backbone_facts(update.backbone).site_names
    except FitError:
        return trained
    return [site for site in order if site in trained]


def _assessed(
    update: Update,
    predictor: FeaturePredictor,
    assessment: Assessment | None,
    photos: ReportPhotos,
    file: str | Path,
) -> partial[ReportData]:
    """Return the report's constructor with the fields of a training that follow from its photos and its assessment."""
    predictions = headline = None
    held_out = np.zeros(len(photos), bool)
    if assessment is not None:
        predictions, headline = (
            PhotoPredictions(part.index, photos.labels[part.index], part.logits, predictor)
            for part in (assessment.leave_one_out, assessment.used)
        )
        held_out[assessment.used.index] = True
    return partial(
        _report(update, predictor, file),
        kind="train",
        photos=photos,
        predictions=predictions,
        headline=headline,
        unseen=assessment is not None and assessment.unseen,
        support=Support(photos.features, photos.labels, held_out, photos.names, photos.digests),
    )


def _report(update: Update, predictor: FeaturePredictor, file: str | Path) -> partial[ReportData]:
    """Return the report's constructor with the fields that follow from the classifier and its file."""
    path = Path(file)
    return partial(
        ReportData,
        title=path.stem,
        classes=[str(name) for name in update.classes],
        head=predictor.head,
        update=update,
        sites=_sites(update),
        file_bytes=path.stat().st_size if path.is_file() else None,
    )
