"""Make ``import timm`` work with CPU torch beside PyPI's torchvision.

PyPI's torchvision is built for CUDA; under CPU torch its operators do not load, and importing it
(timm does) ends in "operator torchvision::nms does not exist". Declaring those operators' schemas
is enough: nothing here calls them. If the operators do load, nothing is declared.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

_declared: torch.library.Library | None = None  # a schema lives as long as its Library object


def declare_missing_operators() -> None:
    global _declared
    found = importlib.util.find_spec("torchvision")
    if _declared is not None or found is None or found.origin is None:
        return
    if not _loads(Path(found.origin).parent):
        _declared = torch.library.Library("torchvision", "FRAGMENT")
        for operator in ("nms", "qnms"):
            _declared.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _loads(package: Path) -> bool:
    for library in sorted(package.glob("_C*")):
        try:
            torch.ops.load_library(library)
            return True
        except OSError:
            continue
    return False


declare_missing_operators()
