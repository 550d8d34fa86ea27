"""The record of a round, as ``rounds.jsonl`` and the checkpoint store it, and the names of the update files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

GLOBAL_UPDATE = "global.safetensors"  # in the folder of the server
PERSONAL_UPDATE = "personal.safetensors"  # in the folder of a client


class RoundRecord(TypedDict, total=False):
    """All or part of what is recorded of a round; round 0 is the evaluation before the first."""

    round: int
    clients: list[str]
    # The clients that did not contribute, and why.
    missing: dict[str, str]
    refused: dict[str, str]
    # The aggregation; with secure aggregation or privacy less is known.
    examples: int
    loss: float
    outliers: list[str]
    # The communication; down is to the clients, up from them.
    parameters_down: int
    parameters_up: int
    bytes_down: int
    bytes_up: int
    # The accuracy of the global classifier and of the clients' personalized ones.
    accuracy: float
    personalized: float  # the mean over the clients
    clients_accuracy: list[float] | dict[str, float]
    # The privacy spent so far.
    epsilon: float
    delta: float


Log = Callable[[str], None]  # receives messages for people, one line each
OnRound = Callable[[RoundRecord], None]
