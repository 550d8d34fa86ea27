"""Small pictures: made once from the pixels that the classifier saw, and embedded once in the page.

The classifier sees squares; a thumbnail gets the photo's own shape back. In the page every place that shows a picture
points to one definition of it (SVG's ``use``), so that a photo may be shown five times at the price of once.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ..data import LoadedImages
from ..model.support import name_of
from ..training.adapt import Adapted
from .markup import Markup, tag

SIDE = 128  # pixels, at most
QUALITY = 72
MOST = 400  # pictures in a page …
BYTES = 3_000_000  # … and their size, a third more in the page
NARROWEST = 0.4  # shapes beyond are cut in the middle
SIDEWAYS = range(5, 9)  # EXIF orientations with width and height exchanged
ORIENTATION = 274


class Album:
    """Looks over the classifier's shoulder and keeps of every image a thumbnail and a digest of its pixels."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.thumbnails: list[bytes] = []
        self.digests: list[str] = []
        self.labels = torch.empty(0, dtype=torch.long)
        self.features = torch.empty(0)
        self.unseen = torch.empty(0, dtype=torch.bool)

    def learned(self, loaded: LoadedImages, adapted: Adapted) -> None:
        """What ``fit_images`` calls at its end."""
        self.see(loaded.pixels, loaded.sources)
        self.labels, self.features, self.unseen = loaded.labels, adapted.features.cpu(), adapted.unseen()

    def see(self, squares: Tensor, sources: Sequence[Any]) -> None:
        """What ``classify`` calls with every handful of images: uint8 (B, 3, S, S) and where they came from."""
        for square, source in zip(squares, sources, strict=True):
            pixels = square.permute(1, 2, 0).contiguous().numpy()
            self.names.append(name_of(source, f"image {len(self.names) + 1}"))
            self.digests.append(hashlib.sha256(pixels.tobytes()).hexdigest()[:32])
            self.thumbnails.append(thumbnail(pixels, shape_of(source)))


def thumbnail(pixels: np.ndarray, aspect: float = 1.0) -> bytes:
    """A JPEG of at most 128 pixels a side, of the shape (width / height) that the photo had."""
    shape = min(max(aspect, NARROWEST), 1 / NARROWEST)
    width, height = (SIDE, round(SIDE / shape)) if shape >= 1 else (round(SIDE * shape), SIDE)
    found = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    buffer = io.BytesIO()
    found.save(buffer, format="JPEG", quality=QUALITY)
    return buffer.getvalue()


def shape_of(source: Any) -> float:
    """Width / height of a source, upright, without decoding it."""
    if isinstance(source, (np.ndarray, torch.Tensor)):
        return float(source.shape[1] / source.shape[0])
    try:
        if isinstance(source, Image.Image):
            return _upright(source)
        with Image.open(source) as image:
            return _upright(image)
    except Exception:  # it was readable a moment ago; the page can do without its shape
        return 1.0


def _upright(image: Image.Image) -> float:
    width, height = image.size
    turned = image.getexif().get(ORIENTATION, 1) in SIDEWAYS
    return height / width if turned else width / height


class Sheet:
    """The pictures that a page shows, each once."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self.room = BYTES
        self.places: dict[bytes, int] = {}
        self.sizes: list[tuple[int, int]] = []

    def place(self, picture: bytes) -> int | None:
        """The number of a picture in the page; none if it is not there and the page is full."""
        fits = len(self.places) < self.most and len(picture) <= self.room
        if picture and picture not in self.places and fits:
            with Image.open(io.BytesIO(picture)) as image:
                self.sizes.append(image.size)
            self.room -= len(picture)
            self.places[picture] = len(self.places)
        return self.places.get(picture)

    def show(self, picture: bytes, alt: str, class_: str = "thumb", *, whole: bool = True) -> Markup:
        """A picture where text is, whole or cut to a square; a blank one if the page is full."""
        number = self.place(picture)
        if number is None:
            inside, box = tag("rect", width=SIDE, height=SIDE, class_="blank"), f"0 0 {SIDE} {SIDE}"
        else:
            inside, box = tag("use", href=f"#p{number}"), self._box(number, whole)
        return tag(
            "svg",
            inside,
            class_=class_,
            viewBox=box,
            preserveAspectRatio="xMinYMin",
            role="img",
            aria_label=alt,
        )

    def draw(self, number: int, x: float, y: float, side: float) -> Markup:
        """A picture inside a drawing, cut to a square."""
        used = tag("use", href=f"#p{number}")
        return tag("svg", used, x=x, y=y, width=side, height=side, viewBox=self._box(number, False))

    def _box(self, number: int, whole: bool) -> str:
        width, height = self.sizes[number]
        if whole:
            return f"0 0 {width} {height}"
        side = min(width, height)
        return f"{(width - side) // 2} {(height - side) // 2} {side} {side}"

    def definitions(self) -> Markup:
        """All pictures, to be put into the page once and out of sight."""
        images = [
            tag(
                "image",
                id=f"p{number}",
                width=self.sizes[number][0],
                height=self.sizes[number][1],
                href=f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}",
            )
            for picture, number in self.places.items()
        ]
        return tag("svg", tag("defs", *images), class_="away", width=0, height=0, aria_hidden="true")
