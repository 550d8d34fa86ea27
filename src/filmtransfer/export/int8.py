"""The backbone in 8-bit numbers: a quarter of the bytes, and what that costs, measured.

onnxruntime's static quantisation: weights by output channel, activations by the range that calibration images show. Weights
use seven of the eight bits: processors without 8-bit dot products add two products in 16 bits, which overflow otherwise.
The head, the normalisation and the features stay in float32: they are small, and a Gaussian head asks for more digits
than eight bits hold (docs/log.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..data import LabelledImages, SkippedImage, find_images, read_squares
from ..errors import InputError, MissingExtraError
from ..estimator import FewShotClassifier
from .graph import import_onnx, quietly
from .parity import Run

BATCH = 16
KINDS = [
    "Conv",
    "Gemm",
    "MatMul",
    "Clip",
    "Relu",
]  # the last two so that they join the convolution before them

Feeds = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Loss:
    """Float against int8 on images that calibration has not seen."""

    images: int
    agreement: float  # how often both name the same class
    probability_change: float  # mean over images of the largest change of a probability
    accuracy: float | None  # of int8, where the images have labels
    float_accuracy: float | None
    bytes: int
    float_bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def lines(self) -> list[str]:
        said = [
            f"int8: {self.bytes / 1e6:.1f} MB instead of {self.float_bytes / 1e6:.1f} MB",
            f"int8 and float name the same class for {self.agreement:.1%} of {self.images} images not calibrated on; "
            f"probabilities change by {self.probability_change:.3f} on average",
        ]
        if self.accuracy is not None and self.float_accuracy is not None:
            change = 100 * (self.accuracy - self.float_accuracy)
            said.append(
                f"accuracy {self.accuracy:.1%} instead of {self.float_accuracy:.1%} ({change:+.1f} points)"
            )
        return said


def quantise(content: bytes, feeds: Feeds) -> bytes:
    """The same graph with its convolutions and matrix products in int8."""
    onnx = import_onnx()
    try:
        from onnxruntime import quantization as q
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError:
        raise MissingExtraError("Quantising", "export") from None

    class Reader(q.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rest = iter(feeds)

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self.rest, None)

    model = onnx.load_from_string(content)
    with tempfile.TemporaryDirectory() as folder, quietly():
        before, ready, after = (Path(folder, f"{name}.onnx") for name in ("before", "ready", "after"))
        before.write_bytes(content)
        quant_pre_process(str(before), str(ready), skip_symbolic_shape=True)
        names = [node.name for node in onnx.load(str(ready)).graph.node]
        q.quantize_static(
            str(ready),
            str(after),
            Reader(),
            op_types_to_quantize=KINDS,
            per_channel=True,
            reduce_range=True,
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
            nodes_to_exclude=[name for name in names if name.startswith("/head")],
            extra_options={"MatMulConstBOnly": True},
        )
        small = onnx.load(str(after))
    del small.metadata_props[:]
    small.metadata_props.extend(model.metadata_props)
    small.producer_name = model.producer_name
    onnx.checker.check_model(small)
    return bytes(small.SerializeToString(deterministic=True))


@dataclass(frozen=True)
class Images:
    """Pixels (N, 3, S, S) and, where the folder's classes are the update's, labels (N)."""

    pixels: np.ndarray
    labels: np.ndarray | None
    skipped: list[SkippedImage]

    def part(self, chosen: Sequence[int]) -> Images:
        labels = None if self.labels is None else self.labels[chosen]
        return Images(self.pixels[chosen], labels, self.skipped)


def read_images(folder: str | Path, clf: FewShotClassifier) -> Images:
    """Calibration images: a folder of classes, a CSV, or a folder of anything."""
    place = Path(folder)
    known = {str(name): i for i, name in enumerate(clf.update_.classes)}
    labels: list[int] | None = None
    try:
        found = LabelledImages.from_path(place)
        sources = found.sources
        if all(str(name) in known for name in found.classes):
            labels = [known[str(found.classes[i])] for i in found.labels]
    except InputError:
        if not place.is_dir():
            raise
        sources = list(find_images(place))
    squares, skipped = read_squares(sources, clf.model_.pixels, [str(s) for s in sources])
    there = [i for i, square in enumerate(squares) if square is not None]
    if not there:
        raise InputError(f"{place} holds no image that can be read.", "Give a folder of photos.")
    pixels = np.stack([square.numpy() for square in squares if square is not None])
    return Images(pixels, None if labels is None else np.array(labels)[there], skipped)


def halves(count: int, limit: int = 256) -> tuple[list[int], list[int]]:
    """Which images calibrate (every other one, up to ``limit``), and which measure (all that do not)."""
    if count < 2:
        raise InputError(
            "int8 needs at least two calibration images: one to calibrate, one to measure.",
            "A hundred of the kind it will meet are better.",
        )
    chosen = list(range(0, count, 2))[:limit]
    return chosen, sorted(set(range(count)) - set(chosen))


def measure(
    whole: Run, small: Run, pixels: np.ndarray, labels: np.ndarray | None, sizes: tuple[int, int]
) -> Loss:
    """What int8 loses on these images; ``sizes`` are the bytes of the float and the int8 files."""
    exact, rough = (
        np.concatenate([run(pixels[i : i + BATCH])["probabilities"] for i in range(0, len(pixels), BATCH)])
        for run in (whole, small)
    )
    right = (
        [None, None] if labels is None else [float((p.argmax(1) == labels).mean()) for p in (exact, rough)]
    )
    return Loss(
        images=len(pixels),
        agreement=float((exact.argmax(1) == rough.argmax(1)).mean()),
        probability_change=float(np.abs(exact - rough).max(1).mean()),
        accuracy=right[1],
        float_accuracy=right[0],
        bytes=sizes[1],
        float_bytes=sizes[0],
    )
