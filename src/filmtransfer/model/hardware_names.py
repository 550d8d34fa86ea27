"""The names of devices and precisions; a mistyped one is an error before torch is imported."""

from __future__ import annotations

import re
from typing import Literal, get_args

from ..errors import check_choice, check_count, invalid_choice

Precision = Literal["float32", "bfloat16"]
DeviceName = Literal[  # for type checkers; any "cuda:N" that the machine has works
    "auto",
    "cpu",
    "cuda",
    "cuda:0",
    "cuda:1",
    "cuda:2",
    "cuda:3",
    "cuda:4",
    "cuda:5",
    "cuda:6",
    "cuda:7",
    "mps",
]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
DEVICE = re.compile(r"auto|(cpu|cuda|mps)(:\d+)?")


def check_hardware_names(
    device: str = "auto", precision: str = "float32", threads: int | None = None
) -> None:
    """Raise an error for a device or precision that no machine has, and for a number of threads below 1."""
    if not DEVICE.fullmatch(device):
        raise invalid_choice("The device", device, ("auto", "cpu", "cuda", "cuda:N", "mps"))
    check_choice("The precision", precision, PRECISIONS)
    if threads is not None:
        check_count("threads", threads)
