"""Photos of the retina prepared as Ben Graham did for the Kaggle competition that he won.

TFDS calls it btgraham-300; the steps and numbers are those of tensorflow/datasets 3.0.0,
tensorflow_datasets/image_classification/diabetic_retinopathy_detection.py.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

RADIUS = 300  # of the eye after scaling, in pixels
KEPT = 0.9  # of the radius; beyond it photos differ by camera
BLUR = RADIUS / 30  # standard deviation of the Gaussian whose result is taken away
CONTRAST, GREY = 4, 128
QUALITY = 72


def preprocess_fundus(photo: np.ndarray) -> np.ndarray:
    """Scale the eye to a radius of 300, keep what differs from its surroundings, and cut off the rim.

    OpenCV, which TFDS uses, rounds in other places, and the result passes through a JPEG: pixels differ
    from TFDS's by a few levels.
    """
    scale = RADIUS / _eye_radius(photo)
    height, width = (max(1, round(side * scale)) for side in photo.shape[:2])
    kept = int(RADIUS * KEPT)
    margin = int(3 * BLUR)  # what the blur of the kept pixels needs
    top, bottom = max(height // 2 - kept, 0), min(height // 2 + kept, height)
    left, right = max(width // 2 - kept, 0), min(width // 2 + kept, width)
    above, before = max(top - margin, 0), max(left - margin, 0)
    rows = np.arange(above, min(bottom + margin, height))
    columns = np.arange(before, min(right + margin, width))
    eye = _sample(photo, rows, columns, scale)
    around = _blur(_blur(eye, 0), 1)
    sharp = np.clip(CONTRAST * (eye - np.rint(around)) + GREY, 0, 255).astype(np.uint8)
    y, x = (rows - height // 2)[:, None], (columns - width // 2)[None, :]
    sharp[y * y + x * x > kept * kept] = GREY
    return _through_jpeg(sharp[top - above : bottom - above, left - before : right - before])


def _eye_radius(photo: np.ndarray) -> float:
    """Half the number of pixels in the middle row that are not black."""
    row = photo[photo.shape[0] // 2].sum(axis=1, dtype=np.int64)
    radius = float((row > row.mean() / 10).sum()) / 2
    return radius if radius >= 1 else photo.shape[0] / 2  # a black photo


def _sample(photo: np.ndarray, rows: np.ndarray, columns: np.ndarray, scale: float) -> np.ndarray:
    """Some rows and columns of the scaled photo, linearly between the four pixels around each place."""
    (up, down, v), (west, east, h) = (
        _neighbours(places, scale, side)
        for places, side in ((rows, photo.shape[0]), (columns, photo.shape[1]))
    )
    h = h[None, :, None]
    upper, lower = (photo[line][:, west] * (1 - h) + photo[line][:, east] * h for line in (up, down))
    v = v[:, None, None]
    between: np.ndarray = np.rint(upper * (1 - v) + lower * v)
    return between


def _neighbours(places: np.ndarray, scale: float, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pixel before, the pixel after, and how far in between."""
    at = np.clip((places + 0.5) / scale - 0.5, 0, side - 1)
    first = np.floor(at).astype(np.int64)
    return first, np.minimum(first + 1, side - 1), (at - first).astype(np.float32)


def _blur(image: np.ndarray, axis: int) -> np.ndarray:
    """A Gaussian along one axis, cut at three standard deviations, mirrored at the border."""
    reach = int(3 * BLUR)
    weights = np.exp(-0.5 * (np.arange(reach + 1) / BLUR) ** 2).astype(np.float32)
    weights /= weights[0] + 2 * weights[1:].sum()
    size = image.shape[axis]
    padding = [(0, 0)] * 3
    padding[axis] = (reach, reach)
    wide = np.moveaxis(np.pad(image, padding, mode="reflect"), axis, 0)
    total = weights[0] * wide[reach : reach + size]
    for far in range(1, reach + 1):
        total += weights[far] * (
            wide[reach - far : reach - far + size] + wide[reach + far : reach + far + size]
        )
    return np.moveaxis(total, 0, axis)


def _through_jpeg(image: np.ndarray) -> np.ndarray:
    """TFDS stores the result as a JPEG of quality 72, so its losses are part of the benchmark."""
    stored = io.BytesIO()
    Image.fromarray(image).save(stored, "JPEG", quality=QUALITY)
    return np.asarray(Image.open(stored))
