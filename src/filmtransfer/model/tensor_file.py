"""Named tensors and one JSON document as the bytes of a .safetensors file; the only place that knows safetensors."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as parse
from safetensors.torch import save as serialise
from torch import Tensor

from ..errors import UpdateFileError


def pack(tensors: Mapping[str, Tensor], key: str, metadata: str) -> bytes:
    """The content of a file; ``metadata`` is a JSON text that stands under ``key``."""
    return serialise({name: t.contiguous() for name, t in tensors.items()}, {key: metadata})


def unpack(content: bytes, key: str, source: str, hint: str) -> tuple[dict[str, Tensor], Any]:
    """The tensors, and what stands under ``key`` (None if nothing does). Nothing in a file is ever run."""
    try:
        tensors = parse(content)
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8 : 8 + length])
        return tensors, json.loads(header.get("__metadata__", {}).get(key, "null"))
    except (SafetensorError, struct.error, ValueError, RecursionError, AttributeError) as error:
        words = str(error).splitlines()[0][:120]
        raise UpdateFileError(f"{source} is not a whole update file ({words}).", hint) from None
