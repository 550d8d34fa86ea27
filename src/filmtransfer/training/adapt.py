"""From a bare model and a task's images to an adapted one: fine-tune, choose how far, build the head."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ..model import AdaptedModel
from ..seeding import generator
from .batch import train_batches
from .choose import WITHOUT_ESTIMATE, choose, hold_out, interpolate, snapshot
from .finetune import History, Watch, finetune
from .presets import Settings


@dataclass(frozen=True)
class Adapted:
    """How the adaptation went, and the support features under the final ψ."""

    history: History
    features: Tensor
    share: float = 0.0  # of the way that fine-tuning went
    scores: dict[float, float] = field(default_factory=dict)

    def results(self) -> dict[str, Any]:
        return {
            "steps": self.history.steps,
            "stopped": self.history.stopped,
            "share": self.share,
            "scores": {str(share): round(score, 4) for share, score in self.scores.items()},
        }


def adapt(
    model: AdaptedModel,
    pixels: Tensor,
    small: Tensor,
    labels: Tensor,
    settings: Settings,
    *,
    seed: int,
    watch: Watch | None = None,
    time_limit: float | None = None,
) -> Adapted:
    """Fine-tune on ``small`` images, then build the head from the full-size ``pixels``."""
    if settings.steps == 0:
        return Adapted(History(), model.configure(pixels, labels))
    if model.head.name == "linear":
        losses = train_batches(
            model, small, labels, what="film", steps=settings.steps, learning_rate=settings.learning_rate, seed=seed
        )  # fmt: skip
        return Adapted(History(steps=len(losses), losses=losses), model.configure(pixels, labels), 1.0)
    kept, held = hold_out(labels, settings.hold_out, generator(seed, "hold out"))
    start = snapshot(model)
    history = finetune(
        model, small[kept], labels[kept], settings, seed=seed, watch=watch, time_limit=time_limit
    )
    if history.steps == 0:
        return Adapted(history, model.configure(pixels, labels))
    end = snapshot(model)
    if len(held) == 0:
        share = 1.0 if settings.hold_out == 0 else WITHOUT_ESTIMATE
        interpolate(model, start, end, share)
        return Adapted(history, model.configure(pixels, labels), share)
    choice = choose(model, start, end, pixels, labels, kept, held)
    model.build_head(choice.features, labels)
    return Adapted(history, choice.features, choice.share, choice.scores)
