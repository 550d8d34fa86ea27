"""The digest of an image's content, which identifies a photo after it was renamed or moved."""

from __future__ import annotations

import hashlib

import numpy as np

from ..files import read_regular
from .formats import FILE_TYPES

DIGEST = 32  # hexadecimal characters: photos do not collide by chance


def digest_of(source: object) -> str:
    """Return the digest of an image's content: of the file if it is one, else of its pixels."""
    digest = hashlib.sha256()
    if isinstance(source, FILE_TYPES):
        digest.update(source if isinstance(source, bytes) else read_regular(source))
    else:
        pixels = np.ascontiguousarray(np.asarray(source))
        digest.update(f"{pixels.shape}{pixels.dtype}".encode())
        digest.update(pixels.tobytes())
    return digest.hexdigest()[:DIGEST]
