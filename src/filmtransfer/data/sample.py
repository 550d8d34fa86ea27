"""The drawings included in the package: Quick, Draw! by Google, CC BY 4.0 (see NOTICE)."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
from PIL import Image, ImageFilter

from ..seeding import numpy_generator, permutation
from .images import LabelledImages
from .pixels import ImageSource

BLUR = 0.5  # of a drawing's pixels, so that lines have no steps
INK, SHARPNESS = 160, 14  # the grey level where ink begins, and the levels over which it does


def enlarge_drawing(drawing: ImageSource, side: int = 240) -> np.ndarray:
    """Return a drawing as a picture to look at (side, side): the pixels of its lines become smooth lines."""
    pixels = np.asarray(drawing)
    image = Image.fromarray(pixels).resize((side, side), Image.Resampling.BICUBIC)
    smooth = image.filter(ImageFilter.GaussianBlur(BLUR * side / len(pixels)))
    grey = 255 / (1 + np.exp((INK - np.asarray(smooth, np.float64)) / SHARPNESS))
    return grey.round().astype(np.uint8)


def sample_drawings(shots: int, seed: int) -> tuple[LabelledImages, LabelledImages]:
    """Return ``shots`` drawings of each of 12 classes for training, and all others for testing."""
    with files("filmtransfer.data").joinpath("sample.npz").open("rb") as file:
        packed = np.load(file)
        images, labels, classes = packed["images"], packed["labels"], [str(c) for c in packed["classes"]]
    generator = numpy_generator(seed, "sample")
    train, test = [], []
    for c in range(len(classes)):
        members = np.flatnonzero(labels == c)
        members = members[permutation(len(members), generator)]
        train += members[:shots].tolist()
        test += members[shots:].tolist()

    def select(indices: list[int]) -> LabelledImages:
        return LabelledImages([images[i] for i in indices], [int(labels[i]) for i in indices], list(classes))

    return select(train), select(test)
