"""Write a classifier as ONNX files: build the graph, compare it with torch, and only then write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..budgets import MAX_UPDATE_BYTES
from ..errors import InputError, UpdateFileError, UsageError
from ..estimator import FewShotClassifier
from ..files import check_writable, open_regular, write_atomically
from ..model import Update
from ..model.hub import SCHEME, find_update
from ..model.ood import FALSE_ALARM
from .folded import folded_graph
from .graph import read_metadata
from .parity import Parity, Run, check_parity, run_folded, run_shared
from .quantisation import (
    BATCH,
    CalibrationImages,
    QuantisationLoss,
    measure_loss,
    quantise,
    split_calibration,
)
from .rejection import Rejection
from .shared import film_rows, shared_backbone, user_file


@dataclass(frozen=True)
class ExportResult:
    """The files written, and what was measured before writing them."""

    files: dict[str, int]  # path → bytes
    parity: Parity
    rejection: Rejection
    loss: QuantisationLoss | None = None
    unchanged: list[str] = field(default_factory=list)  # files that already had this content


def load_classifier(location: str | Path, weights: str | None = None) -> FewShotClassifier:
    """Load the classifier of an update file, a hub folder or ``hf://owner/name``; refuse an exported graph."""
    return FewShotClassifier.load(_update_path(location), weights=weights, device="cpu")


def load_update(location: str | Path) -> Update:
    """Load the update alone, without its backbone."""
    return Update.load(_update_path(location))


def _update_path(location: str | Path) -> Path:
    if not str(location).startswith(SCHEME):
        path = Path(location)
        if path.suffix == ".onnx" or _is_exported(path):
            kind = read_metadata(path.read_bytes()).get("kind", "") if _is_small(path) else ""
            raise UpdateFileError(
                f"{path} is an exported model already{f' ({kind})' if kind else ''}: it was left unchanged.",
                "Export the update (.safetensors) that it was made from.",
            )
    return find_update(location)


def _is_small(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MAX_UPDATE_BYTES


def write_folded(
    clf: FewShotClassifier,
    out: str | Path,
    images: CalibrationImages | None = None,
    false_alarm: float = FALSE_ALARM,
) -> ExportResult:
    """Write one .onnx file, in int8 if there are calibration images."""
    target = _target(out)
    content, parity, loss = build_folded(clf, images, false_alarm)
    rejection = Rejection.of(clf.predictor_, false_alarm)
    return ExportResult({str(target): len(content)}, parity, rejection, loss, _write({target: content}))


def build_folded(
    clf: FewShotClassifier, images: CalibrationImages | None = None, false_alarm: float = FALSE_ALARM
) -> tuple[bytes, Parity, QuantisationLoss | None]:
    """Build the folded graph and compare it with torch; with calibration images, also quantise it and compare with float."""
    content = folded_graph(clf, false_alarm)
    parity = check_parity(run_folded(content), clf)
    quantised, loss = _quantise(content, images, run_folded)
    return quantised, parity, loss


def write_shared(
    clf: FewShotClassifier,
    out: str | Path,
    user: str,
    images: CalibrationImages | None = None,
    false_alarm: float = FALSE_ALARM,
) -> ExportResult:
    """Write the shared backbone to ``out`` and the user's file ``<user>.user.onnx`` beside it."""
    target = _target(out)
    user_target = _target(target.with_name(f"{user}.user.onnx"))
    if user_target == target:
        raise UsageError(
            f"{target} would be both the backbone and the user's file.", "Give the backbone another name."
        )
    if target.is_file() and read_metadata(target.read_bytes()).get("kind") == "user":
        raise InputError(f"{target} is a user's file.", "Give the backbone another name.")
    backbone, user_content = shared_backbone(clf), user_file(clf, false_alarm)
    parity = check_parity(run_shared(backbone, user_content), clf)
    gamma, beta = (row.numpy() for row in film_rows(clf))
    backbone, loss = _quantise(
        backbone, images, lambda content: run_shared(content, user_content), gamma=gamma, beta=beta
    )
    contents = {target: backbone, user_target: user_content}
    sizes = {str(path): len(content) for path, content in contents.items()}
    rejection = Rejection.of(clf.predictor_, false_alarm)
    return ExportResult(sizes, parity, rejection, loss, _write(contents))


def _quantise(
    content: bytes, images: CalibrationImages | None, open: Callable[[bytes], Run], **rows: np.ndarray
) -> tuple[bytes, QuantisationLoss | None]:
    """Quantise a graph and compare it with float, if there are images; ``rows`` are its inputs beside the pixels."""
    if images is None:
        return content, None
    calibrating, measuring = (images.subset(part) for part in split_calibration(len(images.pixels)))
    batches = [calibrating.pixels[i : i + BATCH] for i in range(0, len(calibrating.pixels), BATCH)]
    quantised = quantise(
        content, [{"pixels": b, **{k: np.tile(row, (len(b), 1)) for k, row in rows.items()}} for b in batches]
    )
    sizes = len(content), len(quantised)
    return quantised, measure_loss(open(content), open(quantised), measuring.pixels, measuring.labels, sizes)


def _write(contents: Mapping[Path, bytes]) -> list[str]:
    """Write the files that differ, and return the names of those that already had this content."""
    unchanged = []
    for path, content in contents.items():
        if path.is_file() and path.read_bytes() == content:
            unchanged.append(str(path))
        else:
            write_atomically(path, content)
    return unchanged


def _target(out: str | Path) -> Path:
    target = Path(out)
    if target.suffix != ".onnx":
        raise UsageError(f"{target} is not the name of an .onnx file.", "For example: --onnx model.onnx")
    check_writable(target)
    return target


def _is_exported(path: Path) -> bool:
    """Return whether a file of any name is an ONNX file of ours; its first bytes contain the producer's name.

    So may those of an update, and its first byte may be that of an ONNX file: it is the length of the JSON document that
    begins at byte 8.
    """
    try:
        with open_regular(path) as file:
            start = file.read(64)
    except OSError:
        return False
    return start[:1] == b"\x08" and start[8:9] != b"{" and b"filmtransfer" in start
