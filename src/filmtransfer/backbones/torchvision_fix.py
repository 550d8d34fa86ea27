"""Make ``import timm`` work with a CPU build of torch and PyPI's torchvision.

PyPI's torchvision is built for CUDA; with a CPU build of torch its operators do not load, and importing it,
as timm does, fails with "operator torchvision::nms does not exist". Declaring the schemas of these operators
is enough, since filmtransfer never calls them. If the operators load, nothing is declared.
"""

from __future__ import annotations

import importlib.util
from contextlib import suppress
from pathlib import Path

import torch

_declared: torch.library.Library | None = None  # a schema lives as long as its Library object


def declare_missing_operators() -> None:
    """Declare the operators of torchvision that do not load."""
    global _declared
    spec = importlib.util.find_spec("torchvision")
    if _declared is not None or spec is None or spec.origin is None:
        return
    for library in sorted(Path(spec.origin).parent.glob("_C*")):
        with suppress(OSError):
            torch.ops.load_library(library)
            return
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        _declared.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


declare_missing_operators()
