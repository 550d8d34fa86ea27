"""Classify images: read them in chunks, compute features and predictions, and report what could not be read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import numpy as np

from ..data import SkippedImage, read_squares
from ..data.inputs import Images, image_sources
from ..data.pixels import ImageSource, PixelSpec
from ..errors import InputError
from .predictor import FeaturePredictor, Predictions

CHUNK = 256  # images in memory at once, so that memory does not grow with the folder
OnImages = Callable[[np.ndarray, Sequence[ImageSource]], None]  # with pixels (B, 3, S, S) and their sources


class Extractor(Protocol):
    """What computes features: an ``AdaptedModel`` with torch, or a graph with onnxruntime."""

    pixels: PixelSpec

    def extract(self, squares: np.ndarray) -> np.ndarray:
        """Compute features (B, D) of uint8 squares (B, 3, S, S)."""
        ...


@dataclass(frozen=True)
class Classified:
    """Which images could be read, their predictions in that order, and the images that were skipped."""

    readable: list[int]
    predictions: Predictions
    skipped: list[SkippedImage]

    @property
    def probabilities(self) -> np.ndarray:
        """p(y=c | image) of the readable images."""
        return self.predictions.probabilities


def classify(
    extractor: Extractor,
    predictor: FeaturePredictor,
    images: Images,
    *,
    strict: bool = False,
    on_images: OnImages | None = None,
) -> Classified:
    """Classify all readable images, and say why the others are not; refuse any if ``strict``."""
    readable: list[int] = []
    skipped: list[SkippedImage] = []
    parts: list[Predictions] = []
    begin = 0
    for part in _chunks(image_sources(images)):
        names = [
            os.fspath(s) if isinstance(s, str | os.PathLike) else f"image {begin + i}"
            for i, s in enumerate(part)
        ]
        squares, unreadable = read_squares(part, extractor.pixels, names)
        skipped += unreadable
        usable = [i for i, square in enumerate(squares) if square is not None]
        readable += [begin + i for i in usable]
        if usable:
            pixels = np.stack([square for square in squares if square is not None])
            if on_images is not None:
                on_images(pixels, [part[i] for i in usable])
            parts.append(predictor.predict(extractor.extract(pixels)))
        begin += len(part)
    if begin == 0:
        raise InputError("No images were given.", "Give at least one; a generator can be read once only.")
    if skipped and (strict or not parts):
        raise InputError(
            f"{skipped[0].name} cannot be used: {skipped[0].reason}."
            if len(skipped) == 1
            else f"{len(skipped)} of {begin} images cannot be used, the first: "
            f"{skipped[0].name}: {skipped[0].reason}."
        )
    return Classified(readable, Predictions.concatenate(parts), skipped)


def _chunks(sources: Iterator[ImageSource]) -> Iterator[list[ImageSource]]:
    while part := list(islice(sources, CHUNK)):
        yield part
