"""Preprocess photos of the retina as Ben Graham did to win the Kaggle competition.

TFDS calls this btgraham-300; the steps and constants are those of tensorflow/datasets 3.0.0,
tensorflow_datasets/image_classification/diabetic_retinopathy_detection.py.
"""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

RADIUS = 300  # of the eye after scaling, in pixels
KEPT = 0.9  # of the radius; beyond it photos differ by camera
BLUR = RADIUS / 30  # standard deviation of the Gaussian blur that is subtracted
CONTRAST, GREY = 4, 128
QUALITY = 72


def preprocess_fundus(photo: np.ndarray) -> np.ndarray:
    """Scale the eye to a radius of 300, subtract the blurred image, and mask the rim.

    OpenCV, which TFDS uses, rounds differently, and the result is stored as a JPEG: pixels differ from those of
    TFDS by a few levels.
    """
    scale = RADIUS / _eye_radius(photo)
    height, width = (max(1, round(side * scale)) for side in photo.shape[:2])
    kept = int(RADIUS * KEPT)
    margin = int(3 * BLUR)  # context that the blur of the kept pixels needs
    top, bottom = max(height // 2 - kept, 0), min(height // 2 + kept, height)
    left, right = max(width // 2 - kept, 0), min(width // 2 + kept, width)
    above, before = max(top - margin, 0), max(left - margin, 0)
    rows = np.arange(above, min(bottom + margin, height))
    columns = np.arange(before, min(right + margin, width))
    eye = _sample(photo, rows, columns, scale)
    blurred = _blur(_blur(eye, 0), 1)
    sharp = np.clip(CONTRAST * (eye - np.rint(blurred)) + GREY, 0, 255).astype(np.uint8)
    y, x = (rows - height // 2)[:, None], (columns - width // 2)[None, :]
    sharp[y * y + x * x > kept * kept] = GREY
    return _jpeg_round_trip(sharp[top - above : bottom - above, left - before : right - before])


def _eye_radius(photo: np.ndarray) -> float:
    """Return half the number of pixels in the middle row that are not black."""
    row = photo[photo.shape[0] // 2].sum(axis=1, dtype=np.int64)
    radius = float((row > row.mean() / 10).sum()) / 2
    return radius if radius >= 1 else photo.shape[0] / 2  # a black photo


def _sample(photo: np.ndarray, rows: np.ndarray, columns: np.ndarray, scale: float) -> np.ndarray:
    """Return rows and columns of the scaled photo by bilinear interpolation."""
    (up, down, v), (west, east, h) = (
        _neighbours(positions, scale, side)
        for positions, side in ((rows, photo.shape[0]), (columns, photo.shape[1]))
    )
    h = h[None, :, None]
    upper, lower = (photo[line][:, west] * (1 - h) + photo[line][:, east] * h for line in (up, down))
    v = v[:, None, None]
    interpolated: np.ndarray = np.rint(upper * (1 - v) + lower * v)
    return interpolated


def _neighbours(positions: np.ndarray, scale: float, side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the pixel before each position, the pixel after it, and the weight of the latter."""
    exact = np.clip((positions + 0.5) / scale - 0.5, 0, side - 1)
    first = np.floor(exact).astype(np.int64)
    return first, np.minimum(first + 1, side - 1), (exact - first).astype(np.float32)


def _blur(image: np.ndarray, axis: int) -> np.ndarray:
    """Apply a Gaussian blur along one axis, truncated at three standard deviations, with reflected borders."""
    reach = int(3 * BLUR)
    weights = np.exp(-0.5 * (np.arange(reach + 1) / BLUR) ** 2).astype(np.float32)
    weights /= weights[0] + 2 * weights[1:].sum()
    size = image.shape[axis]
    padding = [(0, 0)] * 3
    padding[axis] = (reach, reach)
    padded = np.moveaxis(np.pad(image, padding, mode="reflect"), axis, 0)
    total = weights[0] * padded[reach : reach + size]
    for distance in range(1, reach + 1):
        total += weights[distance] * (
            padded[reach - distance : reach - distance + size]
            + padded[reach + distance : reach + distance + size]
        )
    return np.moveaxis(total, 0, axis)


def _jpeg_round_trip(image: np.ndarray) -> np.ndarray:
    """Encode and decode as a JPEG of quality 72: TFDS stores the result so, and its losses are part of the benchmark."""
    stored = io.BytesIO()
    Image.fromarray(image).save(stored, "JPEG", quality=QUALITY)
    return np.asarray(Image.open(stored))
