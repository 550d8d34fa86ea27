"""Fewer bytes for the same numbers: half precision, or one byte each with a scale per tensor.

What is compressed is a difference: from the common start on the way to a client, from what the client was sent
on the way back. Rounding is not lost but owed (error feedback): the server keeps ψ itself whole, a client adds what
its last rounding left out to its next step.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..errors import InputError

Arrays = dict[str, np.ndarray]


def encode(vector: np.ndarray, how: str, sizes: list[int]) -> Arrays:
    """The arrays to send for a vector made of tensors of these sizes."""
    if how == "none":
        return {"psi": vector.astype(np.float32)}
    if how == "float16":
        return {"psi": vector.astype(np.float16)}
    edges = np.cumsum(sizes)[:-1]
    largest = np.array([np.abs(part).max(initial=0) for part in np.split(vector, edges)], np.float32)
    scale = largest / 127
    steps = np.repeat(np.where(scale > 0, scale, 1), sizes)
    return {"psi": np.rint(vector / steps).clip(-127, 127).astype(np.int8), "scale": scale}


def decode(arrays: Mapping[str, np.ndarray], how: str, sizes: list[int]) -> np.ndarray:
    """The inverse of ``encode``, to rounding; refuses what is not of its form."""
    wanted = {"none": np.float32, "float16": np.float16, "int8": np.int8}[how]
    psi = arrays.get("psi")
    if psi is None or psi.ndim != 1 or psi.dtype != wanted:
        raise InputError(f"What came is not a vector of {np.dtype(wanted).name}.")
    if psi.size != sum(sizes):
        raise InputError(f"{psi.size} numbers came instead of {sum(sizes)}.")
    if how != "int8":
        return psi.astype(np.float32)
    scale = arrays.get("scale")
    if scale is None or scale.shape != (len(sizes),) or scale.dtype != np.float32:
        raise InputError(f"The scales of {len(sizes)} tensors are missing.")
    found: np.ndarray = psi.astype(np.float32) * np.repeat(scale, sizes)
    return found
