"""Measure the memory that images take while they are decoded, at the largest size that is accepted, in a decoder process.

    python benchmarks/decoding.py

Every image is decoded as for a prediction by a new process as the service has them, with its limit on memory; Linux reports
the peak of the process. The images have one colour: they are small files, as an attacker would send. Writes
benchmarks/results/decoding.json and decoding.md.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pillow_heif
from PIL import Image

from filmtransfer.budgets import MAX_IMAGE_MEMORY, MAX_PIXELS
from filmtransfer.data import PixelSpec
from filmtransfer.data.formats import open_file
from filmtransfer.data.memory import decoding_memory, prepare_decoding
from filmtransfer.errors import InputError
from filmtransfer.serve.decoders import Decoders
from filmtransfer.serve.settings import ServiceSettings

FILE = Path(__file__).parent / "results" / "decoding.json"
SPEC = PixelSpec(224, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
SMALL = 4096  # pixels of the side from which the memory for each pixel is taken: large enough for any fraction of a JPEG
WEBP_SIDE = 16_383  # the largest that the format can have
ONE_STRIP: Mapping[str, Any] = {"compression": "tiff_lzw", "strip_size": 2**31 - 1}


@dataclass(frozen=True)
class Kind:
    """A kind of image file: its mode and how it is written."""

    name: str
    mode: str
    format: str
    options: Mapping[str, Any] = field(default_factory=dict)
    turned: bool = False

    def file(self, side: int) -> bytes:
        """Return an image of one colour."""
        out = BytesIO()
        if self.format == "HEIF":
            pixels = np.full(
                (side, side, len(self.mode.split(";")[0])), 77, np.uint16 if ";" in self.mode else np.uint8
            )
            pillow_heif.encode(self.mode, (side, side), pixels.tobytes(), out, quality=10, **self.options)
            return out.getvalue()
        exif = Image.Exif()
        if self.turned:
            exif[0x0112] = 6
        options = dict(self.options) | ({"exif": exif} if self.turned else {})
        grey = self.mode in ("P", "L", "I;16", "I", "F", "1")
        image = Image.new(
            self.mode,
            (side, side),
            1 if grey else (77, 88, 99, 50)[: len(Image.new(self.mode, (1, 1)).getbands())],
        )
        if "transparency" in options and self.format == "GIF":
            options |= {"save_all": True, "append_images": [Image.new(self.mode, (side, side), 2)]}
        image.save(out, self.format, **options)
        return out.getvalue()

    def largest(self) -> int:
        """Return the side of the largest square image that is accepted."""
        with open_file(self.file(SMALL)) as image:
            prepare_decoding(image, SPEC.size)
            needed = decoding_memory(image, SMALL**2) / SMALL**2
        if self.turned:
            needed = max(needed, 8)
        side = math.isqrt(int(min(MAX_PIXELS, MAX_IMAGE_MEMORY / needed))) // 2 * 2
        return min(side, WEBP_SIDE) if self.format == "WEBP" else side


KINDS = [
    Kind("JPEG", "RGB", "JPEG"),
    Kind("JPEG, progressive, 4:4:4", "RGB", "JPEG", {"progressive": True, "subsampling": 0}),
    Kind("JPEG, progressive, CMYK", "CMYK", "JPEG", {"progressive": True}),
    Kind("PNG, RGB", "RGB", "PNG", {"compress_level": 1}),
    Kind("PNG, RGB, turned by EXIF", "RGB", "PNG", {"compress_level": 1}, turned=True),
    Kind("PNG, RGBA", "RGBA", "PNG", {"compress_level": 1}),
    Kind("PNG, LA", "LA", "PNG", {"compress_level": 1}),
    Kind("PNG, palette with transparency", "P", "PNG", {"compress_level": 1, "transparency": 1}),
    Kind("PNG, grey, 16 bits", "I;16", "PNG", {"compress_level": 1}),
    Kind("PNG, grey", "L", "PNG", {"compress_level": 1}),
    Kind("GIF, animated, transparent", "P", "GIF", {"transparency": 1}),
    Kind("WebP, lossy", "RGB", "WEBP", {"quality": 10, "method": 0}),
    Kind("WebP, lossless, transparent", "RGBA", "WEBP", {"lossless": True, "quality": 0, "method": 0}),
    Kind("HEIC, 8 bits", "RGB", "HEIF"),
    Kind("HEIC, 8 bits, transparent, 4:4:4", "RGBA", "HEIF", {"chroma": 444}),
    Kind("HEIC, 10 bits, 4:4:4", "RGB;16", "HEIF", {"chroma": 444}),
    Kind("AVIF", "RGB", "AVIF", {"quality": 10, "speed": 10}),
    Kind("AVIF, transparent, 4:4:4", "RGBA", "AVIF", {"quality": 10, "speed": 10, "subsampling": "4:4:4"}),
    Kind("TIFF, RGB, LZW, one strip", "RGB", "TIFF", ONE_STRIP),
    Kind("TIFF, CMYK, LZW, one strip", "CMYK", "TIFF", ONE_STRIP),
    Kind("TIFF, floats, LZW, one strip", "F", "TIFF", ONE_STRIP),
    Kind("TIFF, grey, 16 bits, one strip", "I;16", "TIFF", ONE_STRIP),
    Kind("BMP, RGB", "RGB", "BMP"),
    Kind("PPM", "RGB", "PPM"),
]


def main() -> None:
    """Measure every kind and write the results."""
    Image.MAX_IMAGE_PIXELS = None
    settings = ServiceSettings()
    measured = []
    for kind in KINDS:
        measured.append(measure(kind, settings))
        print(json.dumps(measured[-1]), file=sys.stderr, flush=True)
    idle = peak(Decoders(settings))
    results = {"limit": settings.decoder_megabytes, "idle": round(idle / 1e6), "kinds": measured}
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    FILE.with_suffix(".md").write_text(page(results))


def measure(kind: Kind, settings: ServiceSettings) -> dict[str, Any]:
    """Decode the largest image of a kind in a new process; return its size, time and peak."""
    side = kind.largest()
    content = kind.file(side)
    decoders = Decoders(settings)
    decoders.start()
    begin = time.monotonic()
    try:
        decoders.square(content, SPEC)
        outcome = "decoded"
    except InputError as error:
        outcome = error.message
    seconds = time.monotonic() - begin
    return {
        "name": kind.name,
        "megapixels": round(side**2 / 1e6, 1),
        "kilobytes": round(len(content) / 1e3),
        "megabytes": round(peak(decoders) / 1e6),
        "seconds": round(seconds, 1),
        "outcome": outcome,
    }


def peak(decoders: Decoders) -> int:
    """Return the largest memory of the pool's process so far, in bytes, and end it."""
    decoders.start()
    (decoder,) = decoders._idle
    decoder.ask({}, b"no image")  # it has imported everything when it responds
    status = Path(f"/proc/{decoder.process.pid}/status").read_text()
    decoders.close()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def page(results: Mapping[str, Any]) -> str:
    """Return the page in Markdown."""
    kinds = results["kinds"]
    most = max(kind["megabytes"] for kind in kinds)
    lines = [
        f"The largest accepted square image of every kind, of one colour, decoded for a prediction by a process of the "
        f"service: the peak of its memory, with Python and the libraries ({results['idle']} MB before the first image). "
        f"The budget is {MAX_IMAGE_MEMORY // 10**6} MB for the image, the limit of the process {results['limit']} MB; the "
        f"most that any kind takes is **{most} MB**. Times are those of a busy machine. Made by `python benchmarks/decoding.py`.",
        "",
        "| kind | megapixels | file, KB | peak, MB | seconds | |",
        "|---|---|---|---|---|---|",
    ]
    for kind in kinds:
        cells = [kind[key] for key in ("name", "megapixels", "kilobytes", "megabytes", "seconds", "outcome")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
