"""Aggregation of the clients' updates by Flower's strategies.

The strategies receive the updates ψ_k − ψ in float64: they are small beside ψ, and Krum compares them by differences of
squares. Implausible replies are refused before: not finite, of another length, or with a parameter that changed more
than fine-tuning ever changes one. The robust strategies handle what is less obvious; ``outliers`` names the clients
whose update is far from the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian, FedTrimmedAvg, Krum, MultiKrum

from ..errors import InputError
from .messages import make_array_record
from .plan import Plan

MAX_CHANGE = 100.0  # γ starts at 1, β at 0, log e near 0: training does not change them as much in a round
OUTLIER_FACTOR = 3.0  # times the median distance from the result


def check_update(update: np.ndarray) -> None:
    """Raise an error if this cannot be the update of a client."""
    if not np.isfinite(update).all():
        raise InputError(f"{int((~np.isfinite(update)).sum())} of its parameters are not finite.")
    if update.size and (largest := float(np.abs(update).max())) > MAX_CHANGE:
        raise InputError(f"it changed a parameter by {largest:.3g}, which fine-tuning does not do.")


def make_strategy(plan: Plan, clients: int) -> FedAvg:
    """Return Flower's strategy of the plan; FedProx differs from FedAvg only on the clients."""
    selected = max(clients - plan.malicious - 2, 1)
    strategies: dict[str, Callable[[], FedAvg]] = {
        "trimmed_mean": lambda: FedTrimmedAvg(beta=plan.trim),
        "median": FedMedian,
        "krum": lambda: Krum(num_malicious_nodes=plan.malicious),
        "multikrum": lambda: MultiKrum(num_malicious_nodes=plan.malicious, num_nodes_to_select=selected),
    }
    return strategies.get(plan.algorithm, FedAvg)()


def aggregate_train(
    plan: Plan, server_round: int, updates: Mapping[str, np.ndarray], num_examples: Mapping[str, int]
) -> np.ndarray:
    """Return the federation's update from those of its clients, in the order of their names."""
    replies = [
        Message(
            RecordDict(
                {
                    "arrays": make_array_record({"psi": updates[name].astype(np.float64)}),
                    "metrics": MetricRecord({"num-examples": num_examples[name]}),
                }
            ),
            dst_node_id=1,
            message_type="train",
        )
        for name in sorted(updates)
    ]
    arrays, _ = make_strategy(plan, len(replies)).aggregate_train(server_round, replies)
    assert arrays is not None
    aggregated: np.ndarray = arrays["psi"].numpy()
    return aggregated


def outliers(updates: Mapping[str, np.ndarray], aggregated: np.ndarray) -> list[str]:
    """Return the clients whose update is much farther from the aggregated one than the others'."""
    distance = {name: float(np.linalg.norm(update - aggregated)) for name, update in updates.items()}
    limit = OUTLIER_FACTOR * float(np.median(list(distance.values())))
    return sorted(name for name, d in distance.items() if d > limit > 0)
