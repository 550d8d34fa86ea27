"""What a caller can observe of a training run: its phases, each step, where the time goes, and the result."""

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
OnPhase = Callable[[str], None]


@dataclass(frozen=True)
class Callbacks:
    """Observers of a training run, all of them optional; what one of them raises ends the run.

    on_phase : called with the name of the work that begins, as in "reading 40 photos" or "fine-tuning".
    on_step : called with a ``Progress`` after every step of fine-tuning.
    on_fitted : called once with the images that were read and what was made of them.
    profiler : measures where the time goes.
    """

    on_step: OnStep | None = None
    on_fitted: Callable[[LoadedImages, Adapted], None] | None = None  # with the images and their features
    profiler: Profiler = field(default=DISABLED, repr=False)
    on_phase: OnPhase | None = None  # with the name of the work that begins, as in "reading 40 photos"

    def phase(self, name: str) -> None:
        """Report that a phase of the run begins."""
        if self.on_phase is not None:
            self.on_phase(name)


NO_CALLBACKS = Callbacks()
