"""Where a model runs and in which arithmetic: device, precision, compiled or not.

Float32 on whatever is there is the default. bfloat16 is for the backbone's training passes only: heads keep their
precision, and what the head is built from and what is predicted is float32, so that an update means the same on
every machine. On a CPU bfloat16 is used only after a child process has survived it, because on some machines it
kills the process. Compiling pays a little on some backbones and costs on others (docs/performance.md), so it is asked for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ..errors import FitWarning, UnavailableError, UsageError
from ..processes import usable_cores
from .hardware_names import Precision, check_hardware_names

# A convolution and a matrix product, forward and backward, in the dtype that may be fatal.
_PROBE = """
import torch
x = torch.randn(4, 16, 8, 8, requires_grad=True)
net = torch.nn.Sequential(torch.nn.Conv2d(16, 32, 3), torch.nn.Flatten(), torch.nn.Linear(1152, 8))
with torch.autocast("cpu", torch.bfloat16):
    y = net(x)
assert y.dtype == torch.bfloat16
y.float().square().sum().backward()
assert torch.isfinite(x.grad).all()
"""


@dataclass(frozen=True)
class Hardware:
    """A device, the arithmetic of the backbone on it, and whether to compile."""

    device: torch.device
    precision: Precision = "float32"
    compile: bool = False

    @classmethod
    def choose(
        cls, device: str = "auto", precision: str = "float32", compile: bool = False, local_rank: int = 0
    ) -> Hardware:
        """Return the hardware by its names; ``auto`` is a CUDA device, else Apple's, else the CPU."""
        check_hardware_names(device, precision)
        chosen = find_device(device, local_rank)
        if precision == "bfloat16" and not has_bfloat16(chosen.type):
            warnings.warn(
                f"bfloat16 does not work on this {chosen.type}: float32 is used.", FitWarning, stacklevel=3
            )
            precision = "float32"
        return cls(chosen, precision, compile)  # type: ignore[arg-type]

    def training_precision(self) -> AbstractContextManager[None]:
        """Return the context of the forward pass: bfloat16 if it is recorded for a gradient and bfloat16 was chosen."""
        if self.precision == "float32" or not torch.is_grad_enabled():
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)


class Compiled:
    """A function compiled by torch, or the function itself if compiling fails.

    torch.compile detects a missing compiler at the first call, so the error is caught there.
    """

    def __init__(self, run: Callable[[Tensor], Tensor]) -> None:
        self._plain = run
        self._run: Callable[[Tensor], Tensor] | None = None

    def __call__(self, x: Tensor) -> Tensor:
        if self._run is not self._plain:
            try:
                self._run = self._run or torch.compile(self._plain)
                with _backward_at_once():
                    return self._run(x)
            except Exception as error:  # of many types; if it is not the compiler's, it is raised again below
                answer = self._plain(x)
                self._run = self._plain
                reason = " ".join(str(error).split())[:100]
                warnings.warn(
                    f"torch.compile failed ({reason}): the backbone runs without it.",
                    FitWarning,
                    stacklevel=2,
                )
                return answer
        return self._plain(x)

    def __getstate__(self) -> dict[str, Any]:
        return {"_plain": self._plain, "_run": None}  # what is compiled belongs to this process


def _backward_at_once() -> AbstractContextManager[None]:
    """Compile the backward pass with the forward pass, so that its failure is caught too."""
    patch: AbstractContextManager[None] = torch._functorch.config.patch(force_non_lazy_backward_lowering=True)
    return patch


def find_device(name: str, local_rank: int = 0) -> torch.device:
    """Return the device by its name; ``local_rank`` chooses among several CUDA devices."""
    check_hardware_names(name)
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if name == "auto":
        name = "cuda" if cuda else "mps" if mps else "cpu"
    device = torch.device(name)
    if (device.type == "cuda" and not cuda) or (device.type == "mps" and not mps):
        raise UnavailableError(f"There is no {device.type} device here.", "Use device 'cpu' or 'auto'.")
    if device.type == "cuda":
        index = local_rank if device.index is None else device.index
        if index >= torch.cuda.device_count():
            raise UsageError(
                f"There is no CUDA device {index}.", f"There are {torch.cuda.device_count()}, counted from 0."
            )
        return torch.device("cuda", index)
    return torch.device("mps", 0) if device.type == "mps" else device


@cache
def has_bfloat16(kind: str) -> bool:
    """Return whether the backbone can run in bfloat16 on this kind of device; on a CPU a child process tries it."""
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    if kind != "cpu":
        return False
    try:
        tried = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


def choose_threads(threads: int | None = None, processes: int = 1) -> int:
    """Set torch's threads: as given, as in OMP_NUM_THREADS, or the cores available to this process."""
    check_hardware_names(threads=threads)
    if threads is not None:
        torch.set_num_threads(threads)
    elif processes > 1:  # torchrun sets OMP_NUM_THREADS to 1 whatever the machine has
        torch.set_num_threads(max(1, usable_cores() // processes))
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))
    return torch.get_num_threads()
