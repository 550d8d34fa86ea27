"""Thumbnails: made once from the pixels that the classifier used, and embedded once in the page.

The classifier uses squares; a thumbnail gets the photo's own aspect ratio back. Every figure of the page refers to one
definition of a picture (SVG's ``use``), so that a photo shown five times takes the space of one.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from ..arrays import to_numpy
from ..data import LoadedImages
from ..data.digest import DIGEST
from ..data.formats import FILE_TYPES, open_file
from ..data.metadata import orientation_of
from ..data.pixels import ImageSource
from ..model.support import name_of
from .markup import Markup, tag

if TYPE_CHECKING:
    from ..training.adapt import Adapted
    from .report_data import ReportPhotos

SIDE = 128  # pixels, at most
QUALITY = 72
EMBEDDED = re.compile(r'<image [^>]*?data-photos="([0-9a-f ]+)" href="data:image/jpeg;base64,([^"]+)"/>')
MAX_PICTURES = 400  # in a page …
MAX_BYTES = 3_000_000  # … and their total size, which grows by a third in the page
NARROWEST = 0.4  # aspect ratio; narrower photos are squeezed to it
SIDEWAYS = range(5, 9)  # EXIF orientations with width and height exchanged


class PhotoRecorder:
    """An observer of a classifier that keeps a thumbnail and a digest of the pixels of every image."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.thumbnails: list[bytes] = []
        self.digests: list[str] = []
        self.labels = np.empty(0, np.int64)
        self.features = np.empty(0)

    def on_training(self, loaded: LoadedImages, adapted: Adapted) -> None:
        """Record the training images; ``fit_images`` calls this at its end."""
        self.on_images(loaded.pixels, loaded.sources)
        self.labels, self.features = loaded.labels, to_numpy(adapted.features)

    def on_images(self, squares: np.ndarray, sources: Sequence[ImageSource]) -> None:
        """Record a batch of images, uint8 (B, 3, S, S), and their sources; ``classify`` calls this for each batch."""
        for square, source in zip(squares, sources, strict=True):
            pixels = np.ascontiguousarray(square.transpose(1, 2, 0))
            self.names.append(name_of(source, f"image {len(self.names) + 1}"))
            self.digests.append(hashlib.sha256(pixels.tobytes()).hexdigest()[:DIGEST])
            self.thumbnails.append(thumbnail(pixels, aspect_ratio(source)))


def thumbnail(pixels: np.ndarray, aspect: float = 1.0) -> bytes:
    """Return a JPEG of at most 128 pixels a side with the photo's aspect ratio (width / height)."""
    aspect = min(max(aspect, NARROWEST), 1 / NARROWEST)
    width, height = (SIDE, round(SIDE / aspect)) if aspect >= 1 else (round(SIDE * aspect), SIDE)
    image = Image.fromarray(pixels).resize((width, height), Image.Resampling.BILINEAR, reducing_gap=2.0)
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=QUALITY)
    return buffer.getvalue()


def aspect_ratio(source: ImageSource) -> float:
    """Return width / height of an image in its upright orientation, without decoding it."""
    if not isinstance(source, (Image.Image, *FILE_TYPES)):
        return source.shape[1] / source.shape[0]
    try:
        with nullcontext(source) if isinstance(source, Image.Image) else open_file(source) as image:
            width, height = image.size
            turned = orientation_of(image) in SIDEWAYS
        return height / width if turned else width / height
    except Exception:  # the file has been deleted since: a square thumbnail is good enough
        return 1.0


class EmbeddedPictures:
    """The pictures of a page, each embedded once."""

    def __init__(self, most: int = MAX_PICTURES, photos: ReportPhotos | None = None) -> None:
        self.most = most
        self.contents: dict[bytes, list[str]] = {}  # of each picture: the digests of the files that it shows
        for picture, digest in zip(photos.thumbnails, photos.contents, strict=False) if photos else ():
            self.contents.setdefault(picture, []).append(digest)
        self.free_bytes = MAX_BYTES
        self.numbers: dict[bytes, int] = {}
        self.sizes: list[tuple[int, int]] = []

    def embed(self, picture: bytes) -> int | None:
        """Embed a picture and return its number; None if it is new and the page is full."""
        fits = len(self.numbers) < self.most and len(picture) <= self.free_bytes
        if picture and picture not in self.numbers and fits:
            with open_file(picture) as image:
                self.sizes.append(image.size)
            self.free_bytes -= len(picture)
            self.numbers[picture] = len(self.numbers)
        return self.numbers.get(picture)

    def show(self, picture: bytes, alt: str, class_: str = "thumb", *, square: bool = False) -> Markup:
        """Return a picture for the text, complete or cropped to a square; a blank one if the page is full."""
        number = self.embed(picture)
        if number is None:
            content, box = tag("rect", width=SIDE, height=SIDE, class_="blank"), f"0 0 {SIDE} {SIDE}"
        else:
            content, box = tag("use", href=f"#p{number}"), self._view_box(number, square)
        return tag(
            "svg",
            content,
            class_=class_,
            viewBox=box,
            preserveAspectRatio="xMinYMin",
            role="img",
            aria_label=alt,
        )

    def draw(self, number: int, x: float, y: float, side: float) -> Markup:
        """Return an embedded picture as a square inside a figure."""
        use = tag("use", href=f"#p{number}")
        return tag("svg", use, x=x, y=y, width=side, height=side, viewBox=self._view_box(number, True))

    def _view_box(self, number: int, square: bool) -> str:
        width, height = self.sizes[number]
        if not square:
            return f"0 0 {width} {height}"
        side = min(width, height)
        return f"{(width - side) // 2} {(height - side) // 2} {side} {side}"

    def embed_all(self) -> None:
        """Embed the photos that no section shows, as far as they fit: after an edit one of them may."""
        for picture in self.contents:
            self.embed(picture)

    def definitions(self) -> Markup:
        """Return the invisible element that contains all pictures."""
        images = []
        for (picture, number), (width, height) in zip(self.numbers.items(), self.sizes, strict=True):
            content = f"data:image/jpeg;base64,{base64.b64encode(picture).decode()}"
            photos = " ".join(self.contents.get(picture, [])) or None
            images.append(
                tag("image", id=f"p{number}", width=width, height=height, data_photos=photos, href=content)
            )
        return tag("svg", tag("defs", *images), class_="away", width=0, height=0, aria_hidden="true")


def read_embedded(page: str) -> dict[str, bytes]:
    """Return the pictures that a page contains, by the digests of the photos that they show."""
    return {
        digest: base64.b64decode(content)
        for digests, content in EMBEDDED.findall(page)
        for digest in digests.split()
    }
