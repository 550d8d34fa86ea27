"""From the clients' numbers to the next ψ, by Flower's strategies.

What is given to a strategy are steps ψ_k − ψ in float64: they are small beside ψ, and Krum compares them by differences of
squares. A reply that no honest client sends is refused before: not finite, of another length, or a number
that moved farther than fine-tuning moves any. What is subtler than that is what the robust strategies are for;
they outvote it, and ``outvoted`` names who lies far from what came out.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flwr.app import Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg, FedMedian, FedTrimmedAvg, Krum, MultiKrum

from ..errors import InputError
from .messages import record
from .plan import Plan

FARTHEST = 100.0  # γ begins at 1, β at 0, log e near 0: nothing honest moves so far in a round
FAR = 3.0  # times the median distance from the result: named as outvoted


def check_step(step: np.ndarray) -> None:
    """Refuse what cannot be a client's step."""
    if not np.isfinite(step).all():
        raise InputError(f"{int((~np.isfinite(step)).sum())} of its numbers are not finite.")
    if step.size and (largest := float(np.abs(step).max())) > FARTHEST:
        raise InputError(f"it moved a number by {largest:.3g}, which no fine-tuning does.")


def strategy(plan: Plan, clients: int) -> FedAvg:
    """Flower's strategy of that name; FedProx differs from FedAvg on the clients only."""
    if plan.algorithm == "trimmed_mean":
        return FedTrimmedAvg(beta=plan.trim)
    if plan.algorithm == "median":
        return FedMedian()
    if plan.algorithm == "krum":
        return Krum(num_malicious_nodes=plan.malicious)
    if plan.algorithm == "multikrum":
        return MultiKrum(
            num_malicious_nodes=plan.malicious, num_nodes_to_select=max(clients - plan.malicious - 2, 1)
        )
    return FedAvg()


def aggregate(
    plan: Plan, server_round: int, steps: Mapping[str, np.ndarray], examples: Mapping[str, int]
) -> np.ndarray:
    """The step of the federation from those of its clients, in the order of their names."""
    replies = [
        Message(
            RecordDict(
                {
                    "arrays": record({"psi": steps[name].astype(np.float64)}),
                    "metrics": MetricRecord({"num-examples": examples[name]}),
                }
            ),
            dst_node_id=1,
            message_type="train",
        )
        for name in sorted(steps)
    ]
    arrays, _ = strategy(plan, len(replies)).aggregate_train(server_round, replies)
    assert arrays is not None
    found: np.ndarray = arrays["psi"].numpy()
    return found


def outvoted(steps: Mapping[str, np.ndarray], result: np.ndarray) -> list[str]:
    """Clients whose step lies far from what came out, compared with the others."""
    distance = {name: float(np.linalg.norm(step - result)) for name, step in steps.items()}
    limit = FAR * float(np.median(list(distance.values())))
    return sorted(name for name, d in distance.items() if d > limit > 0)
