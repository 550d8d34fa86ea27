"""From a classifier and what an album saw to the subject of a report."""

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
from .pictures import Album
from .subject import Judged, Learned, Photos, Strangers, Subject


def of_training(clf: FewShotClassifier, album: Album, file: str | Path) -> Subject:
    """About the photos that ``clf.fit_images(images, look=album.learned)`` has just learned from."""
    update, judgement = clf.update_, clf.judgement_
    photos = Photos(album.names, album.labels, album.features, album.thumbnails, album.digests)
    judged = counted = None
    tested = torch.zeros(len(photos), dtype=torch.bool)
    if judgement is not None:
        prior = _prior(update)
        judged, counted = (
            Judged(left.index, album.labels[left.index], left.logits + prior, judgement.temperature)
            for left in (judgement.left, judgement.used)
        )
        tested[judgement.used.index] = True
    return Subject(
        kind="train",
        title=Path(file).stem,
        classes=[str(name) for name in update.classes],
        photos=photos,
        judged=judged,
        counted=counted,
        unseen=judgement is not None and judgement.unseen,
        learned=Learned(album.features, album.labels, tested, album.names),
        head=clf.model_.head,
        update=update,
        sites=_sites(update),
        skipped=clf.skipped_,
        seconds=clf.history_.seconds,
        stored=_size(file),
    )


def of_test(
    clf: FewShotClassifier,
    album: Album,
    labels: Tensor,
    found: Classified,
    file: str | Path,
    strangers: Strangers | None = None,
) -> Subject:
    """About test photos that ``clf.classify(images, look=album.see)`` has classified; labels are places in its classes."""
    update = clf.update_
    features = found.features.cpu()
    photos = Photos(album.names, labels, features, album.thumbnails, album.digests)
    with torch.no_grad():
        logits = clf.model_.head.logits(found.features).cpu().double() + _prior(update)
    judged = Judged(torch.arange(len(labels)), labels, logits, update.temperature)
    support = update.support
    return Subject(
        kind="test",
        title=Path(file).stem,
        classes=[str(name) for name in update.classes],
        photos=photos,
        judged=judged,
        counted=judged,
        unseen=True,
        learned=None
        if support is None
        else Learned(
            support.features, support.labels, torch.zeros(len(support), dtype=torch.bool), support.names
        ),
        head=clf.model_.head,
        update=update,
        sites=_sites(update),
        skipped=found.skipped,
        stored=_size(file),
        strangers=strangers,
    )


def of_strangers(
    clf: FewShotClassifier,
    album: Album,
    found: Classified,
    known: Classified,
    false_alarm: float = FALSE_ALARM,
) -> Strangers:
    """About photos of none of the classes, beside the test photos; asks for a classifier that can tell them."""
    clf.rejected(found, false_alarm)  # says so if it cannot
    unknown = clf.update_.unknown
    assert unknown is not None
    features = found.features.cpu()
    taken = torch.from_numpy(found.probabilities.argmax(1))
    return Strangers(
        photos=Photos(album.names, taken, features, album.thumbnails, album.digests),
        scores=clf.nearness(found),
        known=clf.nearness(known),
        left_out=unknown.known_scores(),
        threshold=unknown.threshold(false_alarm),
        false_alarm=false_alarm,
    )


def _prior(update: Update) -> Tensor:
    stored: Any = update.settings.get("prior", "uniform")
    given: Any = stored if isinstance(stored, str) else torch.tensor(stored, dtype=torch.float64)
    return log_prior(given, torch.tensor(update.counts))


def _sites(update: Update) -> list[str]:
    """The FiLM layers in the order of the network; a backbone that is not in the catalogue keeps that of the file."""
    here = list(dict.fromkeys(name.rpartition(".")[0] for name in update.film))
    try:
        order = backbone_facts(update.backbone).site_names
    except FitError:
        return here
    return [site for site in order if site in here]


def _size(file: str | Path) -> int | None:
    path = Path(file)
    return path.stat().st_size if path.is_file() else None
