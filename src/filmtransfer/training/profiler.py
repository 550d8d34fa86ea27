"""Where the time of a step goes: by phase over all steps, and by kind of operation in one of them.

A phase ends where the step says so (``end_phase``), so the step itself stays readable. The second step is timed
operator by operator instead, which slows it down, so the phases do not count it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_TIMED_BY_OPERATOR = 2  # the step whose operators are timed

# The first kind of which a part occurs in an operator's name; without one it is "other".
_KINDS = {
    "convolutions, backward": ("convolution_backward",),
    "convolutions, forward": ("convolution",),
    "norms with FiLM": ("norm",),
    "activations": ("hardtanh", "threshold", "clamp", "silu", "gelu", "relu", "hardswish"),
    "attention": ("attention",),
    "matrix products": ("mm",),
    "head's factorisations": ("linalg", "cholesky", "triangular"),
    "pooling": ("pool",),
    "copies and padding": ("pad", "copy", "index", "cat"),
    "sums and products": ("add", "mul", "sum", "mean"),
}


class Profiler:
    """A stopwatch for training; does nothing unless enabled."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self.once: dict[str, float] = {}  # seconds
        self.phases: dict[str, float] = {}  # seconds, summed over the steps that count
        self.kinds: dict[str, float] = {}  # seconds of one step
        self.steps = 0
        self.device = torch.device("cpu")
        self._last = 0.0
        self._by_operator = False

    def __repr__(self) -> str:
        return f"Profiler(enabled={self.enabled})"

    def start(self, device: torch.device) -> None:
        """Prepare to time work on a device."""
        if self.enabled:
            self.device = device

    def end_phase(self, name: str) -> None:
        """Count the time since the end of the last phase of this step as ``name``."""
        if self.enabled:
            now = self._now()
            if not self._by_operator:
                self.phases[name] = self.phases.get(name, 0.0) + now - self._last
            self._last = now

    @contextmanager
    def timed_once(self, name: str) -> Iterator[None]:
        """Time what is done once, outside the steps."""
        start = self._now() if self.enabled else 0.0
        yield
        if self.enabled:
            self.once[name] = self.once.get(name, 0.0) + self._now() - start

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time the gradient of a step."""
        if not self.enabled:
            yield
            return
        self.steps += 1
        self._by_operator = self.steps == _TIMED_BY_OPERATOR and self.device.type == "cpu"
        self._last = self._now()
        if not self._by_operator:
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
        """Return seconds: of what is done once, of a step by phase, and of one step by kind of operation."""
        counted = max(self.steps - bool(self.kinds), 1)
        by_phase = {name: seconds / counted for name, seconds in self.phases.items()}
        return {
            "steps": self.steps,
            "step_seconds": sum(by_phase.values()),
            "once": self.once,
            "by_phase": by_phase,
            "by_kind": dict(sorted(self.kinds.items(), key=lambda item: -item[1])),
        }


DISABLED = Profiler(enabled=False)


class _Operators(TorchDispatchMode):
    """Times every operator, also in the backward pass. (torch's own profiler writes to stderr.)"""

    def __init__(self, kinds: dict[str, float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kinds = kinds

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        start = time.monotonic()
        result = func(*args, **(kwargs or {}))
        kind = kind_of(str(func))
        self.kinds[kind] = self.kinds.get(kind, 0.0) + time.monotonic() - start
        return result


def kind_of(operator: str) -> str:
    """Return the kind of an operator, by its name."""
    name = operator.lower()
    return next((kind for kind, parts in _KINDS.items() if any(part in name for part in parts)), "other")
