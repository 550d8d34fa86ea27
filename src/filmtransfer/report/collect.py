"""Collect the data of a report from a classifier and from what a recorder observed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..errors import FitError
from ..model import FeaturePredictor, Update
from ..model.classification import Classified
from ..model.ood import FALSE_ALARM
from ..model.support import Support
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
    predictor, assessment = clf.predictor_, clf.assessment_
    predictions = headline = None
    held_out = np.zeros(len(recorder.names), bool)
    if assessment is not None:
        predictions, headline = (
            PhotoPredictions(part.index, recorder.labels[part.index], part.logits, predictor)
            for part in (assessment.leave_one_out, assessment.used)
        )
        held_out[assessment.used.index] = True
    return _report(clf, file)(
        kind="train",
        photos=_photos(recorder, recorder.labels, recorder.features),
        predictions=predictions,
        headline=headline,
        unseen=assessment is not None and assessment.unseen,
        support=Support(recorder.features, recorder.labels, held_out, recorder.names, recorder.digests),
        skipped=clf.skipped_,
        seconds=clf.history_.seconds,
    )


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
    return _report(clf, file)(
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


def _photos(recorder: PhotoRecorder, labels: np.ndarray, features: np.ndarray) -> ReportPhotos:
    return ReportPhotos(recorder.names, labels, features, recorder.thumbnails, recorder.digests)


def _sites(update: Update) -> list[str]:
    """Return the FiLM layers in the order of the network, or of the file if the backbone is not in the catalogue."""
    from ..backbones import backbone_facts

    trained = list(dict.fromkeys(name.rpartition(".")[0] for name in update.film))
    try:
        order = backbone_facts(update.backbone).site_names
    except FitError:
        return trained
    return [site for site in order if site in trained]


def _report(clf: Classifier, file: str | Path) -> partial[ReportData]:
    """Return the report's constructor with the fields that follow from the classifier and its file."""
    path, update = Path(file), clf.update_
    return partial(
        ReportData,
        title=path.stem,
        classes=[str(name) for name in update.classes],
        head=clf.predictor_.head,
        update=update,
        sites=_sites(update),
        file_bytes=path.stat().st_size if path.is_file() else None,
    )
