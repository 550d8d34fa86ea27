"""The global classifier of a federation: over all classes, from summed statistics, as an ordinary update."""

from __future__ import annotations

import numpy as np

from ..estimator import versions
from ..heads import Statistics
from ..model import AdaptedModel, Update
from .client_manager import FederationError
from .parameters import write
from .plan import Plan


def global_update(
    model: AdaptedModel, plan: Plan, psi: np.ndarray, statistics: Statistics, classes: list[str]
) -> Update:
    """What ``fit predict`` can use; a class that nobody sent examples of is an error."""
    lost = [name for c, name in enumerate(classes) if int(statistics.counts[c]) < 1]
    if lost:
        raise FederationError(
            f"Nobody sent examples of {', '.join(lost)}.", "Start it again when those clients are there."
        )
    write(model, psi)
    model.head.configure_from(statistics)
    return describe(model, plan, classes)


def describe(model: AdaptedModel, plan: Plan, classes: list[str]) -> Update:
    """A configured model as an update."""
    settings = plan.training_config().resolve(model.backbone).to_dict()
    return Update.of(
        model,
        classes,
        settings=settings | {"preset": "federated", "prior": "uniform"},
        results={},
        seed=plan.seed,
        versions=versions(),
    )
