"""The classifiers of a federation as ordinary updates: the global one from summed statistics, and personalized ones."""

from __future__ import annotations

import numpy as np

from ..heads import SingularError, Statistics
from ..model import AdaptedModel, Update
from ..model.metadata import library_versions
from .client_manager import FederationError
from .parameters import set_parameters
from .plan import Plan


def global_update(
    model: AdaptedModel, plan: Plan, psi: np.ndarray, statistics: Statistics, classes: list[str]
) -> Update:
    """Return the global classifier for ``fit predict``; every class must have examples."""
    empty = [name for c, name in enumerate(classes) if int(statistics.counts[c]) < 1]
    if empty:
        raise FederationError(
            f"No client sent examples of {', '.join(empty)}.", "Start again when their clients are connected."
        )
    set_parameters(model, psi)
    try:
        model.head.configure_from(statistics)
    except SingularError:
        raise FederationError(
            "The summed statistics give no head: their second moments are not those of images.",
            "Start again without the client that sends others; secure=false shows which one it is.",
        ) from None
    return make_update(model, plan, classes)


def make_update(model: AdaptedModel, plan: Plan, classes: list[str]) -> Update:
    """Return a model with a configured head as an update."""
    settings = plan.training_config().resolve(model.backbone).to_dict()
    return Update.of(
        model,
        classes,
        settings=settings | {"preset": "federated", "prior": "uniform"},
        results={},
        seed=plan.seed,
        versions=library_versions(),
    )
