"""Where the time of a step goes: by phase over all steps, and by kind of arithmetic in one of them.

A phase ends where the step says so (``mark``), so the step itself stays readable. The second step is looked
at more closely, operator by operator, and left out of the phases: looking slows it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_LOOK_AT = 2

# The first that occurs in an operator's name decides; what none names is "other".
_KINDS = {
    "convolution_backward": "convolutions, backward",
    "convolution": "convolutions, forward",
    "norm": "norms with FiLM",
    "hardtanh": "activations",
    "threshold": "activations",
    "clamp": "activations",
    "silu": "activations",
    "gelu": "activations",
    "relu": "activations",
    "hardswish": "activations",
    "attention": "attention",
    "mm": "matrix products",
    "linalg": "head's factorisations",
    "cholesky": "head's factorisations",
    "triangular": "head's factorisations",
    "pool": "pooling",
    "pad": "copies and padding",
    "copy": "copies and padding",
    "index": "copies and padding",
    "cat": "copies and padding",
    "add": "sums and products",
    "mul": "sums and products",
    "sum": "sums and products",
    "mean": "sums and products",
}


class Profile:
    """A stopwatch for fine-tuning; off unless asked for."""

    def __init__(self, on: bool = False) -> None:
        self.on = on
        self.once: dict[str, float] = {}  # seconds
        self.phases: dict[str, float] = {}  # seconds, summed over the steps that count
        self.kinds: dict[str, float] = {}  # seconds of one step
        self.steps = 0
        self.device = torch.device("cpu")
        self._last = 0.0
        self._looking = False

    def mark(self, name: str) -> None:
        """What was done since the last mark was this."""
        if self.on:
            now = self._now()
            if not self._looking:
                self.phases[name] = self.phases.get(name, 0.0) + now - self._last
            self._last = now

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Something that is done once, outside the steps."""
        began = self._now() if self.on else 0.0
        yield
        if self.on:
            self.once[name] = self.once.get(name, 0.0) + self._now() - began

    @contextmanager
    def step(self) -> Iterator[None]:
        """Around each step's gradient."""
        if not self.on:
            yield
            return
        self.steps += 1
        self._looking = self.steps == _LOOK_AT and self.device.type == "cpu"
        self._last = self._now()
        if not self._looking:
            yield
            return
        with _Operators(self.kinds):
            yield

    def _now(self) -> float:
        if self.device.type == "cuda":  # its work is only queued when a call returns
            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            torch.mps.synchronize()
        return time.monotonic()

    def to_dict(self) -> dict[str, Any]:
        """Seconds: of what was done once, of a step by phase, and of one step by kind of arithmetic."""
        counted = max(self.steps - bool(self.kinds), 1)
        by_phase = {name: seconds / counted for name, seconds in self.phases.items()}
        return {
            "steps": self.steps,
            "step_seconds": sum(by_phase.values()),
            "once": self.once,
            "by_phase": by_phase,
            "by_kind": dict(sorted(self.kinds.items(), key=lambda item: -item[1])),
        }


class _Operators(TorchDispatchMode):
    """Times every operator, those of the backward pass too. (torch's profiler writes to stderr.)"""

    def __init__(self, kinds: dict[str, float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kinds = kinds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        began = time.monotonic()
        result = func(*args, **(kwargs or {}))
        kind = kind_of(str(func))
        self.kinds[kind] = self.kinds.get(kind, 0.0) + time.monotonic() - began
        return result


def kind_of(operator: str) -> str:
    """What kind of arithmetic an operator is."""
    return next((kind for part, kind in _KINDS.items() if part in operator.lower()), "other")
