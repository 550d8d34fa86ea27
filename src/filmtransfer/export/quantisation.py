"""Static quantisation to int8: a quarter of the bytes, and the measured loss.

onnxruntime quantises weights by output channel and activations by the range that calibration images show. Weights
use seven of the eight bits: processors without 8-bit dot products add two products in 16 bits, which would overflow
otherwise. The head, the normalisation and the features stay in float32: they are small, and a Gaussian head needs
more precision than eight bits (docs/log.md).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..data import LabelledImages, SkippedImage, find_images, read_squares
from ..errors import InputError
from ..estimator import FewShotClassifier
from ..formatting import file_size, percent
from ..runtime.session import import_extra
from ..runtime.tracing import suppress_warnings
from .parity import Run

BATCH = 16
# Clip and Relu, so that they are fused with the convolution before them.
QUANTISED_OPERATORS = ["Conv", "Gemm", "MatMul", "Clip", "Relu"]

Feeds = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class QuantisationLoss:
    """The float and the int8 graph compared on images that were not used for calibration."""

    images: int
    agreement: float  # share of images for which both predict the same class
    probability_change: float  # mean over images of the largest change of a probability
    accuracy: float | None  # of int8, where the images have labels
    float_accuracy: float | None
    bytes: int
    float_bytes: int
    rejection_agreement: float | None = None  # share of images that both reject or both accept
    rejected: float | None = None  # share of images that int8 rejects
    float_rejected: float | None = None

    def lines(self) -> list[str]:
        """Describe the loss in sentences for the command and the model card."""
        lines = [
            f"int8: {file_size(self.bytes)} instead of {file_size(self.float_bytes)}",
            f"int8 and float predict the same class for {percent(self.agreement)} of {self.images} images not used for "
            f"calibration; probabilities change by {self.probability_change:.3f} on average",
        ]
        if self.rejection_agreement is not None:
            assert self.rejected is not None
            assert self.float_rejected is not None
            lines.append(
                f"int8 and float agree for {percent(self.rejection_agreement)} of them on whether to reject "
                f"(int8 rejects {percent(self.rejected)}, float {percent(self.float_rejected)})"
            )
        if self.accuracy is not None and self.float_accuracy is not None:
            change = 100 * (self.accuracy - self.float_accuracy)
            lines.append(
                f"accuracy {percent(self.accuracy)} instead of {percent(self.float_accuracy)} ({change:+.1f} points)"
            )
        return lines


def quantise(content: bytes, feeds: Feeds) -> bytes:
    """Return the graph with its convolutions and matrix products in int8, calibrated on ``feeds``."""
    onnx, q = import_extra("onnx"), import_extra("onnxruntime.quantization")
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(q.CalibrationDataReader):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.remaining = iter(feeds)

        def get_next(self) -> Mapping[str, np.ndarray] | None:
            return next(self.remaining, None)

    model = onnx.load_from_string(content)
    with tempfile.TemporaryDirectory() as folder, suppress_warnings():
        before, prepared, after = (Path(folder, f"{name}.onnx") for name in ("before", "prepared", "after"))
        before.write_bytes(content)
        quant_pre_process(str(before), str(prepared), skip_symbolic_shape=True)
        names = [node.name for node in onnx.load(str(prepared)).graph.node]
        q.quantize_static(
            str(prepared),
            str(after),
            Reader(),
            op_types_to_quantize=QUANTISED_OPERATORS,
            per_channel=True,
            reduce_range=True,
            activation_type=q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
            nodes_to_exclude=[name for name in names if name.startswith("/head")],
            extra_options={"MatMulConstBOnly": True},
        )
        quantised = onnx.load(str(after))
    del quantised.metadata_props[:]
    quantised.metadata_props.extend(model.metadata_props)
    quantised.producer_name = model.producer_name
    onnx.checker.check_model(quantised)
    return bytes(quantised.SerializeToString(deterministic=True))


@dataclass(frozen=True)
class CalibrationImages:
    """Pixels (N, 3, S, S) and, where the folder's classes are the update's, labels (N)."""

    pixels: np.ndarray
    labels: np.ndarray | None
    skipped: list[SkippedImage]

    def subset(self, indices: Sequence[int]) -> CalibrationImages:
        """Return the images at these indices."""
        labels = None if self.labels is None else self.labels[indices]
        return CalibrationImages(self.pixels[indices], labels, self.skipped)


def read_calibration_images(folder: str | Path, clf: FewShotClassifier) -> CalibrationImages:
    """Read images from a folder per class, a CSV, or a folder of unlabelled images."""
    path = Path(folder)
    class_index = {str(name): i for i, name in enumerate(clf.update_.classes)}
    labels: list[int] | None = None
    try:
        labelled = LabelledImages.from_path(path)
        sources = labelled.sources
        if all(str(name) in class_index for name in labelled.classes):
            labels = [class_index[str(labelled.classes[i])] for i in labelled.labels]
    except InputError:
        if not path.is_dir():
            raise
        sources = list(find_images(path))
    squares, skipped = read_squares(sources, clf.model_.pixels, [str(s) for s in sources])
    readable = [i for i, square in enumerate(squares) if square is not None]
    if not readable:
        raise InputError(f"{path} contains no readable image.", "Give a folder of photos.")
    pixels = np.stack([square for square in squares if square is not None])
    return CalibrationImages(pixels, None if labels is None else np.array(labels)[readable], skipped)


def split_calibration(count: int, limit: int = 256) -> tuple[list[int], list[int]]:
    """Return the indices that calibrate (every other one, up to ``limit``) and those that measure (all others)."""
    if count < 2:
        raise InputError(
            "int8 needs at least two calibration images: one to calibrate, one to measure.",
            "A hundred images like those it will classify are better.",
        )
    calibrating = list(range(0, count, 2))[:limit]
    return calibrating, sorted(set(range(count)) - set(calibrating))


def measure_loss(
    float_run: Run, int8_run: Run, pixels: np.ndarray, labels: np.ndarray | None, sizes: tuple[int, int]
) -> QuantisationLoss:
    """Compare the two graphs on these images; ``sizes`` are the bytes of the float and the int8 file."""
    float_outputs, int8_outputs = (run_in_batches(run, pixels) for run in (float_run, int8_run))
    exact, approximate = float_outputs["probabilities"], int8_outputs["probabilities"]
    float_accuracy, accuracy = (
        None if labels is None else float((p.argmax(1) == labels).mean()) for p in (exact, approximate)
    )
    return QuantisationLoss(
        images=len(pixels),
        agreement=float((exact.argmax(1) == approximate.argmax(1)).mean()),
        probability_change=float(np.abs(exact - approximate).max(1).mean()),
        accuracy=accuracy,
        float_accuracy=float_accuracy,
        bytes=sizes[1],
        float_bytes=sizes[0],
        **_rejection_loss(float_outputs.get("rejected"), int8_outputs.get("rejected")),
    )


def run_in_batches(run: Run, pixels: np.ndarray) -> dict[str, np.ndarray]:
    """Return the outputs for all images, computed in batches."""
    parts = [run(pixels[i : i + BATCH]) for i in range(0, len(pixels), BATCH)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _rejection_loss(exact: np.ndarray | None, approximate: np.ndarray | None) -> dict[str, float]:
    """Return how the rejections of float and int8 differ; nothing for graphs that cannot reject."""
    if exact is None or approximate is None:
        return {}
    return {
        "rejection_agreement": float((exact == approximate).mean()),
        "rejected": float(approximate.mean()),
        "float_rejected": float(exact.mean()),
    }
