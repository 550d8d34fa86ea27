"""The digest of an image's content, which identifies a photo after it was renamed or moved."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from .pixels import FILE_TYPES

DIGEST = 32  # hexadecimal characters: photos do not collide by chance


def digest_of(source: object) -> str:
    """Return the digest of an image's content: of the file if it is one, else of its pixels."""
    digest = hashlib.sha256()
    if isinstance(source, FILE_TYPES):
        digest.update(source if isinstance(source, bytes) else Path(source).read_bytes())
    else:
        pixels = np.ascontiguousarray(np.asarray(source))
        digest.update(f"{pixels.shape}{pixels.dtype}".encode())
        digest.update(pixels.tobytes())
    return digest.hexdigest()[:DIGEST]
