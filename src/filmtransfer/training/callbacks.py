"""What a caller can observe of a training run: each step, where the time goes, and the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .profiler import DISABLED, Profiler

if TYPE_CHECKING:
    from ..data import LoadedImages
    from .adapt import Adapted


@dataclass(frozen=True)
class Progress:
    """The state of a run after a step."""

    step: int
    steps: int
    loss: float
    accuracy: float
    seconds_left: float


OnStep = Callable[[Progress], None]


@dataclass(frozen=True)
class Callbacks:
    """Observers of a training run, all of them optional; what one of them raises ends the run."""

    on_step: OnStep | None = None
    on_fitted: Callable[[LoadedImages, Adapted], None] | None = None  # with the images and their features
    profiler: Profiler = field(default=DISABLED, repr=False)


NO_CALLBACKS = Callbacks()
