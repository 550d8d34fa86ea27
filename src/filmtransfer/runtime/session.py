"""A graph on onnxruntime: pixels and a row of γ and β for each image → features.

A batch is computed in parts of a few images, one part a thread: the activations of a few images stay in the
processor's cache, and threads that share nothing wait for nothing (benchmarks/results/runtime.md).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import InputError, MissingExtraError, UpdateFileError, check_count, first_line
from .facts import GraphFacts

KEY = "filmtransfer"  # of our metadata in a graph's properties
MICRO_BATCH = 4  # images in a part


class FeatureSession:
    """A backbone in memory whose FiLM parameters are inputs; any number of threads may use it at once."""

    def __init__(self, content: bytes, threads: int) -> None:
        check_count("threads", threads)
        self.threads = threads
        self._session = open_session(content, 1)
        self._inputs = {node.name for node in self._session.get_inputs()}  # without FiLM only the pixels
        self.facts = GraphFacts.from_json(self._session.get_modelmeta().custom_metadata_map.get(KEY, "{}"))

    def features(self, pixels: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Return float32 features (B, D) of uint8 pixels (B, 3, S, S).

        γ and β are rows (B, P), image i with row i, or (P) for all images. ``facts.pack`` makes a row from an update.
        """
        self._check_pixels(pixels)
        arrays = {
            "pixels": pixels,
            "gamma": self._rows(gamma, len(pixels)),
            "beta": self._rows(beta, len(pixels)),
        }
        inputs = [(name, array) for name, array in arrays.items() if name in self._inputs]
        step = min(MICRO_BATCH, -(-len(pixels) // self.threads))
        parts = [slice(begin, begin + step) for begin in range(0, len(pixels), max(step, 1))]

        def run(part: slice) -> np.ndarray:
            feeds = {name: np.ascontiguousarray(array[part]) for name, array in inputs}
            features: np.ndarray = self._session.run(["features"], feeds)[0]
            return features

        if len(parts) < 2 or self.threads == 1:
            results = [run(part) for part in parts]
        else:
            with ThreadPoolExecutor(min(self.threads, len(parts))) as pool:
                results = list(pool.map(run, parts))
        return np.concatenate([np.empty((0, self.facts.features), np.float32), *results])

    def _check_pixels(self, pixels: np.ndarray) -> None:
        size = self.facts.key.size
        if pixels.dtype != np.uint8 or pixels.ndim != 4 or pixels.shape[1:] != (3, size, size):
            raise InputError(
                f"The pixels are {pixels.dtype} of shape {pixels.shape}; this graph takes uint8 of shape "
                f"(B, 3, {size}, {size})."
            )

    def _rows(self, values: np.ndarray, images: int) -> np.ndarray:
        """Return γ or β as rows (B, P), checked."""
        shapes = (self.facts.channels,), (images, self.facts.channels)
        if values.shape not in shapes:
            raise InputError(
                f"γ or β has shape {values.shape}; {images} images of this graph take {shapes[0]} or {shapes[1]}.",
                "Give one row for each image, or one for all.",
            )
        return np.broadcast_to(values.astype(np.float32, copy=False), shapes[1])


def open_session(content: bytes, threads: int) -> Any:
    """Return an onnxruntime session on the CPU that prints errors only."""
    runtime = import_extra("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception for each of its status codes
        raise UpdateFileError(f"onnxruntime cannot open the graph ({first_line(error)}).") from None


def import_extra(name: str) -> Any:
    """Import a module of the extra ``export``, or name the extra if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError("onnxruntime", "export") from None
