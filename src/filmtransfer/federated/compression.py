"""Compression of the parameter vector: half precision, or 8-bit quantization with one scale per tensor.

Differences are compressed: from the initial parameters on the way to a client, from the received parameters on the way
back. Rounding errors are corrected by error feedback: the server keeps ψ uncompressed, and a client adds the rounding
error of its last update to its next one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import InputError

Arrays = dict[str, np.ndarray]
DTYPES = {"none": np.float32, "float16": np.float16, "int8": np.int8}


def compress(vector: np.ndarray, method: str, sizes: list[int]) -> Arrays:
    """Return the arrays to send for a vector made of tensors of these sizes."""
    if method != "int8":
        return {"psi": vector.astype(DTYPES[method])}
    edges = np.cumsum(sizes)[:-1]
    largest = np.array([np.abs(part).max(initial=0) for part in np.split(vector, edges)], np.float32)
    scale = largest / 127
    steps = np.repeat(np.where(scale > 0, scale, 1), sizes)
    return {"psi": np.rint(vector / steps).clip(-127, 127).astype(np.int8), "scale": scale}


def decompress(arrays: Mapping[str, np.ndarray], method: str, sizes: list[int]) -> np.ndarray:
    """Return the vector of compressed arrays, up to rounding; raise an error if they do not have its form."""
    dtype = DTYPES[method]
    psi = arrays.get("psi")
    if psi is None or psi.ndim != 1 or psi.dtype != dtype:
        raise InputError(f"The message has no vector of {np.dtype(dtype).name}.")
    if psi.size != sum(sizes):
        raise InputError(f"The message has {psi.size} parameters instead of {sum(sizes)}.")
    if method != "int8":
        return psi.astype(np.float32)
    scale = arrays.get("scale")
    if scale is None or scale.shape != (len(sizes),) or scale.dtype != np.float32:
        raise InputError(f"The scales of {len(sizes)} tensors are missing.")
    vector: np.ndarray = psi.astype(np.float32) * np.repeat(scale, sizes)
    return vector
