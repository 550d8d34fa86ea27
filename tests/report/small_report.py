"""Report data of small, separable classes, for which the right answers are known."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from filmtransfer.data.pixels import PixelSpec
from filmtransfer.heads import Head, ProtoNets, make_head
from filmtransfer.model import Estimate, FeaturePredictor, Update
from filmtransfer.model.support import Support
from filmtransfer.report.report_data import (
    PhotoPredictions,
    ReportData,
    ReportKind,
    ReportPhotos,
)
from filmtransfer.training.assess.leave_one_out import leave_one_out

D = 16
LABELS = np.arange(4).repeat(8)


def jpeg(seed: int) -> bytes:
    """Return a small picture of two colours."""
    rng = np.random.default_rng(seed)
    buffer = io.BytesIO()
    pixels = np.full((24, 32, 3), rng.integers(0, 255, 3), dtype=np.uint8)
    pixels[:8] = rng.integers(0, 255, 3)
    Image.fromarray(pixels).save(buffer, format="JPEG")
    return buffer.getvalue()


def features(labels: np.ndarray, spread: float = 0.35, seed: int = 0, width: int = D) -> np.ndarray:
    """Return normally distributed features of each class."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(int(labels.max()) + 1, width))
    return (means[labels] + spread * rng.normal(size=(len(labels), width))).astype(np.float32)


def photos(labels: np.ndarray, z: np.ndarray, pictures: bool = True) -> ReportPhotos:
    """Return photos with these features, named folder/000.jpg and so on."""
    count = len(labels)
    thumbnails = [jpeg(i) if pictures else b"" for i in range(count)]
    names = [f"folder/{i:03}.jpg" for i in range(count)]
    return ReportPhotos(names, labels, z, thumbnails, [f"{i:032x}" for i in range(count)])


def predictions(probabilities: list[list[float]], labels: list[int]) -> PhotoPredictions:
    """Return predictions with the given probabilities."""
    classes = len(probabilities[0])
    predictor = FeaturePredictor(ProtoNets(), (), list(range(classes)), np.zeros(classes))
    logits = np.log(probabilities)
    return PhotoPredictions(np.arange(len(labels)), np.array(labels), logits, predictor)


def update_of(head: Head, names: list[str], **more: Any) -> Update:
    """Return an update with a configured head and FiLM parameters of three layers."""
    assert head.counts is not None
    rng = np.random.default_rng(0)
    known: dict[str, Any] = {
        "parameters": {f"block{i}.{k}": (0.1 * np.abs(rng.normal(size=6)) + (k == "gamma")).astype(np.float32) for i in range(3) for k in ("gamma", "beta")},
        "results": {"steps": 5, "share": 1.0, "stopped": "done"},
        "settings": {"prior": "uniform"},
    }  # fmt: skip
    return Update(
        head=head.name,
        head_tensors=head.tensors(),
        head_weights=head.log_weights(),
        classes=list(names),
        counts=head.counts.tolist(),
        backbone="small",
        backbone_digest="0" * 64,
        pixels=PixelSpec(64, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        versions={"filmtransfer": "0"},
        **(known | more),
    )


def report_data(
    labels: np.ndarray,
    z: np.ndarray,
    *,
    names: list[str] | None = None,
    head: str = "lda",
    temperature: float = 1.0,
    assessed: bool = True,
    pictures: bool = True,
    kind: ReportKind = "train",
    **more: Any,
) -> ReportData:
    """Return data as training makes them: cross-validated predictions, of which the second half is the headline."""
    classes = int(labels.max()) + 1
    names = names or [f"kind {c}" for c in range(classes)]
    built = make_head(head).configure(z, labels)
    predictions = headline = None
    held_out = np.zeros(len(labels), bool)
    if assessed:
        every = leave_one_out(built, z, labels)
        predictor = replace(FeaturePredictor.of(built, names), temperature=temperature)
        predictions = PhotoPredictions(every.index, labels[every.index], every.logits, predictor)
        held_out[every.index] = True
        held_out[: len(labels) // 2] = False
        part = every.select(held_out)
        headline = PhotoPredictions(part.index, labels[part.index], part.logits, predictor)
    update = update_of(built, names, **more)
    if headline is not None and len(headline):  # as training stores it
        result = headline.evaluation
        estimate = Estimate(result.accuracy, result.low, result.high, result.images, unseen=True)
        update.results = {"estimate": estimate.stored()} | update.results
    return ReportData(
        kind=kind,
        title="small",
        classes=names,
        photos=photos(labels, z, pictures),
        predictions=predictions,
        headline=headline,
        unseen=True,
        support=Support(z, labels, held_out, [""] * len(labels), [""] * len(labels)),
        head=built,
        update=update,
        sites=list(dict.fromkeys(name.rpartition(".")[0] for name in update.film)),
    )
