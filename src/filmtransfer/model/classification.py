"""Classify images: read them in chunks, compute features and predictions, and report what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..data import SkippedImage, read_squares
from ..data.pixels import ImageSource
from ..errors import InputError
from .adapted import AdaptedModel
from .predictor import Predictions, Predictor

CHUNK = 256  # images in memory at once, so that memory does not grow with the folder
OnImages = Callable[[np.ndarray, Sequence[ImageSource]], None]  # with pixels (B, 3, S, S) and their sources


@dataclass(frozen=True)
class Classified:
    """Which images could be read, their predictions in that order, and the images that were skipped."""

    readable: list[int]
    predictions: Predictions
    skipped: list[SkippedImage]

    @property
    def probabilities(self) -> np.ndarray:
        """p(y=c | image) of the readable images."""
        probabilities: np.ndarray = self.predictions.probabilities.numpy()
        return probabilities


def classify(
    model: AdaptedModel,
    predictor: Predictor,
    images: Sequence[ImageSource] | np.ndarray,
    *,
    strict: bool = False,
    on_images: OnImages | None = None,
) -> Classified:
    """Classify all readable images, and say why the others are not; refuse any if ``strict``."""
    if isinstance(images, str | Path):
        raise InputError("Images are given as a list.", f"For one image: [{str(images)!r}].")
    sources = images if hasattr(images, "__getitem__") else list(images)
    if len(sources) == 0:
        raise InputError("No images were given.", "Give at least one.")
    readable: list[int] = []
    skipped: list[SkippedImage] = []
    parts: list[Predictions] = []
    for begin in range(0, len(sources), CHUNK):
        part = list(sources[begin : begin + CHUNK])
        names = [str(s) if isinstance(s, str | Path) else f"image {begin + i}" for i, s in enumerate(part)]
        squares, unreadable = read_squares(part, model.pixels, names)
        skipped += unreadable
        usable = [i for i, square in enumerate(squares) if square is not None]
        readable += [begin + i for i in usable]
        if usable:
            pixels = np.stack([square for square in squares if square is not None])
            if on_images is not None:
                on_images(pixels, [part[i] for i in usable])
            parts.append(predictor.predict(model.features(torch.from_numpy(pixels))))
    if skipped and (strict or not parts):
        raise InputError(
            f"{len(skipped)} of {len(sources)} images cannot be used, the first: "
            f"{skipped[0].name}: {skipped[0].reason}."
        )
    return Classified(readable, Predictions.concatenate(parts), skipped)
