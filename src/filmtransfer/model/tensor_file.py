"""Named arrays and one JSON document as the bytes of a .safetensors file; no other module uses safetensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as parse
from safetensors.numpy import save as serialise

from ..errors import UpdateFileError, first_line

NOT_AN_UPDATE = "An update file is a .safetensors file, as written by 'fit train' or by the service."


def pack(tensors: Mapping[str, np.ndarray], key: str, metadata: str) -> bytes:
    """Return the content of a file; ``metadata`` is a JSON text, stored under ``key``."""
    return serialise({name: np.asarray(t, order="C") for name, t in tensors.items()}, {key: metadata})


def unpack(content: bytes, key: str, source: str, hint: str) -> tuple[dict[str, np.ndarray], Any]:
    """Return the tensors, and the document stored under ``key`` or None. Nothing in a file is ever run."""
    # A .safetensors file begins with the length of a JSON document, and then the document.
    if content[8:9] not in (b"{", b""):
        raise UpdateFileError(f"{source} is not an update file.", NOT_AN_UPDATE)
    try:
        tensors = parse(content)
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        return tensors, json.loads(header.get("__metadata__", {}).get(key, "null"))
    except (SafetensorError, struct.error, ValueError, KeyError, RecursionError, AttributeError) as error:
        raise UpdateFileError(
            f"{source} is not a complete update file ({first_line(error)}).", hint
        ) from None
