"""Import timm quickly, and with any build of torchvision: ``from .timm_import import timm``.

timm itself needs three small parts of torchvision: the transforms, the datasets and FrozenBatchNorm2d. But whoever
imports a part of a package imports the package, here all models and operators of torchvision and with them
torch._dynamo, which takes longer than all of timm. And PyPI's torchvision, which is built for CUDA, cannot be imported
at all beside a CPU build of torch: "operator torchvision::nms does not exist".

Therefore, while timm is imported,

- ``torchvision`` and ``torchvision.ops`` are empty packages in the real folders: their modules can be imported one
  by one. ``torchvision.models`` cannot; timm then does without the feature extraction by torch.fx.
- ``torch.compiler.disable``, a decorator in timm, is torch's own form of it that imports torch._dynamo at the first call.

Afterwards the empty packages are removed. A later ``import torchvision`` is the real one, and succeeds, because the
operators that did not load are declared. Their schemas suffice, since filmtransfer never calls them.

If timm or torchvision are imported already, nothing of this is done.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch

_declared: torch.library.Library | None = None  # a schema lives as long as its Library object


def _torchvision_folder() -> Path | None:
    spec = importlib.util.find_spec("torchvision")
    return Path(spec.origin).parent if spec is not None and spec.origin is not None else None


def _declare_missing_operators(torchvision: Path) -> None:
    """Declare the operators of torchvision that do not load."""
    global _declared
    for library in sorted(torchvision.glob("_C*")):
        with suppress(OSError):
            torch.ops.load_library(library)
            return
    _declared = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        _declared.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


@contextmanager
def _empty_packages(torchvision: Path) -> Iterator[None]:
    """Within the context, import single modules of torchvision without the rest of it."""
    packages = {"torchvision": torchvision, "torchvision.ops": torchvision / "ops"}
    modules = cast(
        dict[str, ModuleType | None], sys.modules
    )  # None stands for a module that cannot be imported
    for name, folder in packages.items():
        package = modules[name] = ModuleType(name)
        package.__path__ = [str(folder)]
    modules["torchvision.models"] = None
    try:
        yield
    finally:
        # What was imported from the empty ops goes with it, since the real one would not get it as an attribute.
        # The other modules stay: the real torchvision imports them by name.
        for name in [*modules]:
            if name in ("torchvision", "torchvision.models") or f"{name}.".startswith("torchvision.ops."):
                del modules[name]


@contextmanager
def _disable_without_dynamo() -> Iterator[None]:
    """Within the context, ``torch.compiler.disable`` does not import torch._dynamo before the first call."""
    compiler: Any = torch.compiler
    original, lazy = compiler.disable, getattr(torch, "_disable_dynamo", None)
    if lazy is not None and "torch._dynamo" not in sys.modules:
        compiler.disable = lazy
    try:
        yield
    finally:
        compiler.disable = original


def _import_timm() -> Any:
    folder = None if {"timm", "torchvision"} & sys.modules.keys() else _torchvision_folder()
    if folder is None:
        return importlib.import_module("timm")
    _declare_missing_operators(folder)
    with _empty_packages(folder), _disable_without_dynamo():
        return importlib.import_module("timm")


timm = _import_timm()
