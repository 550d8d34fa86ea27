"""How fine-tuning ended: why it stopped, how much of its change is kept, and both in words. Needs no torch."""

from __future__ import annotations

from typing import Literal

Stop = Literal["done", "interrupted", "time limit", "not finite", "one-shot"]
STOPPED: dict[str, str] = {  # why training ended, after the number of steps
    "done": "",
    "interrupted": " (interrupted; what was trained so far is kept)",
    "time limit": " (time limit)",
    "not finite": " (the loss was no longer finite; the last finite parameters are kept)",
    "one-shot": " (one photo per class: nothing to fine-tune on)",
}


def describe_stop(stopped: str, steps: int) -> str:
    """Return why training ended, to be added after the number of steps."""
    if stopped == "interrupted" and steps == 0:
        return " (interrupted before the first step)"
    return STOPPED.get(stopped, "")


DEFAULT_ALPHA = 0.5  # the interpolation factor where there is nothing to choose it by
INTERPOLATION = {  # each α in words
    0.0: "None of the change is kept (α = 0): it was worse on held-out photos.",
    0.5: "Half of the change is kept (α = 0.5), which is safest with few photos.",
    1.0: "All of the change is kept (α = 1).",
}
