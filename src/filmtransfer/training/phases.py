"""The names of the phases of a training run, which commands, logs and callbacks show. Needs no torch."""

from __future__ import annotations

ACTIVATIONS = "computing activations"  # of the stages below FiLM, once for all steps
FINE_TUNING = "fine-tuning"
INTERPOLATION = "choosing the interpolation factor"
FEATURES = "computing features"
ASSESSMENT = "assessing"

KEEPS_TRAINING = (
    FINE_TUNING,
    INTERPOLATION,
)  # Ctrl-C in these ends the training, and what was trained is kept


def loading(backbone: str) -> str:
    """Return the phase in which a backbone is loaded."""
    return f"loading {backbone}"
