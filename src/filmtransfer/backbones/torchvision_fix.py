"""Make ``import timm`` work with a CPU build of torch and PyPI's torchvision.

PyPI's torchvision is built for CUDA; with a CPU build of torch its operators do not load, and importing it,
as timm does, fails with "operator torchvision::nms does not exist". Declaring the schemas of these operators
is enough, since filmtransfer never calls them. If the operators load, nothing is declared.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

_declared: torch.library.Library | None = None  # a schema lives as long as its Library object


def declare_missing_operators() -> None:
    """Declare the operators of torchvision that do not load."""
    global _declared
    spec = importlib.util.find_spec("torchvision")
    if _declared is not None or spec is None or spec.origin is None:
        return
    if not _operators_load(Path(spec.origin).parent):
        _declared = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            _declared.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _operators_load(package: Path) -> bool:
    for library in sorted(package.glob("_C*")):
        try:
            torch.ops.load_library(library)
            return True
        except OSError:
            continue
    return False


declare_missing_operators()
