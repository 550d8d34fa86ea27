"""Invented rows of federated runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from filmtransfer.federated.plan import Plan

FILM = 11_648  # of BiT-M-R50x1
BIT = 23_500_352 + 100 * 2049  # with the linear head of 100 classes
BYTES = {"none": 4, "float16": 2, "int8": 1}


def make_row(
    accuracy: float = 0.6,
    bound: str = "federated",
    clients: int = 50,
    shots: int = 5,
    seed: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """Return an invented row of a results file; ``result`` adds to its results, all else to its settings."""
    extra = options.pop("result", {})
    settings = {
        "dataset": "cifar100", "protocol": "federated", "clients": clients, "ways": 10, "shots": shots,
        "bound": bound, "method": "FiT-ProtoNets", "seed": seed, "backbone": "bit_m_r50x1", "preset": "cifar100",
        "bound_steps": 400, **options,
    }  # fmt: skip
    personal = min(1.0, accuracy + 0.2)
    result: dict[str, Any] = {
        "accuracy": accuracy, "personalized": personal, "updateable": FILM, "seconds": 60.0,
        "clients_accuracy": np.linspace(personal - 0.1, personal + 0.1, clients).tolist(),
    }  # fmt: skip
    if settings["method"] == "BiT":
        settings |= {"preset": "bit", "head": "linear", "train": "all"}
        result |= {"updateable": BIT, "personalized": None, "clients_accuracy": []}
    if bound == "federated":
        size, rounds = result["updateable"], Plan.from_settings(settings).rounds
        width = BYTES[settings.get("compression", "none")]
        result |= {
            "parameters_per_round": 10 * size, "parameters": 10 * size * rounds, "bytes_up": 5 * size * rounds * width,
            "bytes_down": 5 * size * rounds * width, "curve": [
                {
                    "round": r, "accuracy": accuracy * (0.5 + 0.5 * r / rounds), "parameters": 10 * size * r,
                    "bytes": 10 * size * r * width,
                    "personalized": None if result["personalized"] is None else personal * (0.6 + 0.4 * r / rounds),
                }
                for r in range(0, rounds + 1, 10)
            ],
        }  # fmt: skip
    return {"version": 1, "key": "0", "settings": settings, "result": result | extra}


def complete_rows(**options: Any) -> list[dict[str, Any]]:
    """Return rows of two numbers of clients, three shots, the federation and both bounds, and two seeds."""
    base = {"lower": 0.5, "federated": 0.6, "upper": 0.65}
    return [
        make_row(base[bound] + shots / 100 + seed / 100, bound, clients, shots, seed, **options)
        for bound in base
        for clients in (10, 50)
        for shots in (2, 5, 10)
        for seed in (0, 1)
    ]
