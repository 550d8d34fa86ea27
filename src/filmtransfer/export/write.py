"""From a classifier to files: make the graph, compare it with torch, then write it. Nothing is left behind half done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import InputError, UpdateFileError, UsageError
from ..estimator import FewShotClassifier
from ..files import check_writable, write_atomically
from ..model import Update
from ..model.hub import SCHEME, find_update
from .folded import folded
from .graph import facts_of
from .int8 import BATCH, Images, Loss, halves, measure, quantise
from .parity import Parity, check, run_folded, run_shared
from .shared import numbers, shared_backbone, user_file


@dataclass(frozen=True)
class Exported:
    """What was written, and what was measured before."""

    files: dict[str, int]  # path → bytes
    parity: Parity
    loss: Loss | None = None
    unchanged: list[str] = field(default_factory=list)  # files that held the same bytes already


def open_update(place: str | Path, weights: str | None = None) -> FewShotClassifier:
    """The classifier of an update file, a hub folder or ``hf://owner/name``; a graph is not one."""
    return FewShotClassifier.load(_checked(place), weights=weights, device="cpu")


def open_file(place: str | Path) -> Update:
    """The update alone, without its backbone."""
    return Update.load(_checked(place))


def _checked(place: str | Path) -> Path:
    if not str(place).startswith(SCHEME):
        path = Path(place)
        if path.suffix == ".onnx" or _begins_like_onnx(path):
            kind = facts_of(path.read_bytes()).get("kind", "") if path.is_file() else ""
            raise UpdateFileError(
                f"{path} is an exported model already"
                + (f" ({kind})" if kind else "")
                + ": it was left unchanged.",
                "Export the update (.safetensors) that it was made from.",
            )
    return find_update(place)


def write_folded(clf: FewShotClassifier, out: str | Path, images: Images | None = None) -> Exported:
    """One .onnx file; in int8 if there are images to calibrate with."""
    target = _target(out)
    content, parity, loss = make_folded(clf, images)
    return Exported({str(target): len(content)}, parity, loss, _write({target: content}))


def make_folded(clf: FewShotClassifier, images: Images | None = None) -> tuple[bytes, Parity, Loss | None]:
    """The folded graph, compared with torch; in int8, compared with float, if there are images."""
    content = folded(clf)
    parity = check(run_folded(content), clf)
    if images is None:
        return content, parity, None
    used, tried = (images.part(chosen) for chosen in halves(len(images.pixels)))
    small = quantise(content, _feeds(used.pixels))
    loss = measure(
        run_folded(content), run_folded(small), tried.pixels, tried.labels, (len(content), len(small))
    )
    return small, parity, loss


def write_shared(
    clf: FewShotClassifier, out: str | Path, user: str, images: Images | None = None
) -> Exported:
    """The shared backbone at ``out``, and beside it ``<user>.user.onnx``."""
    target = _target(out)
    beside = _target(target.with_name(f"{user}.user.onnx"))
    if beside == target:
        raise UsageError(
            f"{target} would be both the backbone and the user's file.", "Name the backbone otherwise."
        )
    if target.is_file() and facts_of(target.read_bytes()).get("kind") == "user":
        raise InputError(f"{target} is a user's file.", "Name the backbone otherwise.")
    backbone, own = shared_backbone(clf), user_file(clf)
    parity = check(run_shared(backbone, own), clf)
    loss = None
    if images is not None:
        used, tried = (images.part(chosen) for chosen in halves(len(images.pixels)))
        gamma, beta = (row.numpy() for row in numbers(clf))
        small = quantise(backbone, _feeds(used.pixels, gamma=gamma, beta=beta))
        runs = run_shared(backbone, own), run_shared(small, own)
        loss = measure(*runs, tried.pixels, tried.labels, (len(backbone), len(small)))
        backbone = small
    contents = {target: backbone, beside: own}
    sizes = {str(path): len(content) for path, content in contents.items()}
    return Exported(sizes, parity, loss, _write(contents))


def _feeds(pixels: np.ndarray, **rows: np.ndarray) -> list[Mapping[str, np.ndarray]]:
    parts = [pixels[i : i + BATCH] for i in range(0, len(pixels), BATCH)]
    return [{"pixels": p, **{k: np.tile(row, (len(p), 1)) for k, row in rows.items()}} for p in parts]


def _write(contents: Mapping[Path, bytes]) -> list[str]:
    """Write what differs; the names of the files that were the same already."""
    same = []
    for path, content in contents.items():
        if path.is_file() and path.read_bytes() == content:
            same.append(str(path))
        else:
            write_atomically(path, content)
    return same


def _target(out: str | Path) -> Path:
    target = Path(out)
    if target.suffix != ".onnx":
        raise UsageError(f"{target} is not the name of an .onnx file.", "For example: --onnx model.onnx")
    check_writable(target)
    return target


def _begins_like_onnx(path: Path) -> bool:
    """Whatever its name: an ONNX file of ours names itself within its first bytes."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError:
        return False
    return start[:1] == b"\x08" and b"filmtransfer" in start
