"""Predictor: a trained classifier that predicts without importing torch.

    from filmtransfer import Predictor

    predictor = Predictor.load("mine.safetensors")
    predictor.predict(["new.jpg"])

Features come from the backbone's graph on onnxruntime (runtime/). Where there is no graph yet, where a GPU was asked for,
or where something else than FiLM was trained, they come from torch: ``predictor.runtime`` says which.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np

from .data.inputs import Images, Label, Labels, as_labels, check_numbers, labelled_sources
from .data.pixels import ImageSource
from .errors import InputError, check_choice
from .formatting import list_names
from .model import Estimate, Explanation, FeaturePredictor, Prior, Update
from .model.classification import Classified, Extractor, OnImages, classify
from .model.hub import find_update
from .model.ood import FALSE_ALARM
from .runtime.extractor import GraphExtractor, find_extractor

if TYPE_CHECKING:
    from .model import AdaptedModel
    from .model.hardware_names import DeviceName

Runtime = Literal["auto", "onnx", "torch"]


class ImagePredictions(ABC):
    """What every trained classifier offers: predictions for images, rejection and explanation."""

    update_: Update

    @property
    @abstractmethod
    def predictor_(self) -> FeaturePredictor:
        """What turns features into probabilities."""

    @property
    def estimate_(self) -> Estimate | None:
        """The estimate of the accuracy on new images; None where no class had an image to spare for it."""
        return self.update_.estimate

    @abstractmethod
    def _extractor(self) -> Extractor:
        """Return what turns images into features."""

    def predict_proba(self, images: Images) -> np.ndarray:
        """Return p(y=c | image) (N, C), classes in the order of ``classes_``.

        ``images`` are paths, PIL images, arrays, tensors or bytes of files, in a list, a batch, a data set or a generator;
        docs/howto.md has a table of what is understood.
        """
        return self.classify(images, strict=True).probabilities

    def predict(
        self, images: Images, *, reject: bool = False, false_alarm: float = FALSE_ALARM
    ) -> np.ndarray:
        """Return the most probable class of each image.

        With ``reject``, None for out-of-distribution images; ``false_alarm`` is the share of in-distribution images
        that may be rejected.
        """
        classified = self.classify(images, strict=True)
        chosen: np.ndarray = np.asarray(self.update_.classes)[classified.probabilities.argmax(1)]
        if reject:
            chosen = chosen.astype(object)
            chosen[self.rejected(classified, false_alarm)] = None
        return chosen

    def rejected(self, classified: Classified, false_alarm: float = FALSE_ALARM) -> np.ndarray:
        """Tell which of the classified images belong to none of the classes (N) bool."""
        return self.predictor_.rejected(classified.predictions, false_alarm)

    def explain(self, images: Images, photos: int = 3) -> list[Explanation]:
        """Explain each prediction by the distances to the classes and the nearest support photos."""
        return self.predictor_.explain(self.classify(images, strict=True).predictions.features, photos)

    def score(self, images: Images, labels: Labels | None = None) -> float:
        """Return the accuracy on labelled images, given as images and labels or as pairs (image, label)."""
        if labels is not None:
            expected = as_labels(labels, images)
            check_known(expected, self.update_.classes)
            predicted = self.predict(images)
        else:
            expected = []
            predicted = self.predict(_without_labels(images, expected))
            check_known(expected, self.update_.classes)
        check_numbers(len(predicted), len(expected))
        return float(np.mean(predicted == np.asarray(expected)))

    def classify(
        self,
        images: Images,
        *,
        strict: bool = False,
        on_images: OnImages | None = None,
    ) -> Classified:
        """Classify all readable images, and say why the others are not; refuse any if ``strict``.

        ``on_images`` is called with the readable images of every chunk: their pixels (B, 3, S, S) and their sources.
        """
        predictor = self.predictor_  # first: an error if this is not fitted
        return classify(self._extractor(), predictor, images, strict=strict, on_images=on_images)


def check_known(labels: Sequence[Label], classes: Sequence[Label]) -> None:
    """Raise an error for labels that are not among the classes of a classifier: no prediction could be correct."""
    unknown = [str(label) for label in dict.fromkeys(labels) if label not in classes]
    if unknown:
        raise InputError(
            f"The classifier does not know the class{'es' if len(unknown) > 1 else ''} {list_names(unknown)}.",
            f"It knows: {', '.join(map(str, classes))}.",
        )


def _without_labels(pairs: Images, labels: list[Label]) -> Iterator[ImageSource]:
    """Yield the images of pairs, and append their labels to the list; a large data set is read in parts."""
    for source, label in labelled_sources(pairs):
        labels.append(label)
        yield source


class Predictor(ImagePredictions):
    """A trained classifier; ``classes_`` are its classes, ``update_`` is all that was learned."""

    def __init__(self, update: Update, extractor: Extractor, prior: Prior | None = None) -> None:
        self.update_ = update
        self.classes_ = np.asarray(update.classes)
        self._features = extractor
        self._predictor = update.predictor(prior=prior)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        runtime: Runtime = "auto",
        weights: str | None = None,
        device: DeviceName = "auto",
        threads: int | None = None,
        prior: Prior | None = None,
    ) -> Predictor:
        """Return the predictor of an update file, a hub folder or ``hf://owner/name``.

        ``runtime`` "onnx" makes the backbone's graph if there is none, "torch" never uses one. ``weights`` is needed
        where the backbone is loaded and does not come with its weights. ``threads``: by default all cores.
        """
        check_choice("The runtime", runtime, get_args(Runtime))
        update = Update.load(find_update(path))
        extractor = find_extractor(update, runtime, weights=weights, device=device, threads=threads)
        return cls(update, extractor, prior)

    def __repr__(self) -> str:
        update = self.update_
        return f"<Predictor of {len(update.classes)} classes: {update.head} on {update.backbone}, {self.runtime}>"

    @property
    def runtime(self) -> str:
        """What computes the features: "onnx" or "torch"."""
        return "onnx" if isinstance(self._features, GraphExtractor) else "torch"

    def torch_model(self) -> AdaptedModel | None:
        """Return the torch model that computes the features; None on onnxruntime."""
        return None if isinstance(self._features, GraphExtractor) else cast("AdaptedModel", self._features)

    @property
    def predictor_(self) -> FeaturePredictor:
        """What turns features into probabilities."""
        return self._predictor

    def _extractor(self) -> Extractor:
        return self._features
