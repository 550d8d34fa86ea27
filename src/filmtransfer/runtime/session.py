"""A graph on onnxruntime: pixels and a row of γ and β for each image → features.

A graph computes one image. Each thread computes images of its own, so that threads do not wait for each other
(benchmarks/results/runtime.md).
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import InputError, UnavailableError, UpdateFileError, check_count, first_line
from .facts import GraphFacts

KEY = "filmtransfer"  # of our metadata in a graph's properties


class MissingRuntimeError(UnavailableError):
    """onnxruntime, or onnx, which writes graphs, is not installed."""


class FeatureSession:
    """A backbone in memory whose FiLM parameters are inputs; any number of threads may use it at once."""

    def __init__(self, content: bytes, threads: int) -> None:
        check_count("threads", threads)
        self.threads = threads
        self._session = open_session(content, 1)
        self._inputs = [node.name for node in self._session.get_inputs()]  # without FiLM only the pixels
        self.facts = GraphFacts.from_json(self._session.get_modelmeta().custom_metadata_map.get(KEY, "{}"))

    def features(self, pixels: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Return float32 features (B, D) of uint8 pixels (B, 3, S, S).

        γ and β are rows (B, P), image i with row i, or (P) for all images. ``facts.pack`` makes a row from an update.
        """
        self._check_pixels(pixels)
        inputs = {"pixels": pixels[:, None], "gamma": self._rows(gamma, len(pixels))}
        inputs |= {"beta": self._rows(beta, len(pixels))}
        features = np.empty((len(pixels), self.facts.features), np.float32)

        def compute(i: int) -> None:
            feeds = {name: np.ascontiguousarray(inputs[name][i]) for name in self._inputs}
            features[i] = self._session.run(["features"], feeds)[0]

        threads = min(self.threads, len(pixels))
        if threads < 2:
            for i in range(len(pixels)):
                compute(i)
        else:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(compute, range(len(pixels))))
        return features

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
    """Import onnxruntime or onnx, which come with the package, or say that it is missing."""
    try:
        return import_module(name)
    except ImportError:
        from ..installation import install_command

        raise MissingRuntimeError(
            f"{name} is not installed.", f"Install it with: {install_command(name)}"
        ) from None
