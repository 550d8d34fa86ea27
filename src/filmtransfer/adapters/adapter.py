"""What an adapter declares: its options, with help and checks, and how it is attached."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import torch
from torch import nn

Options = TypeVar("Options")
Value = TypeVar("Value")


@dataclass(frozen=True)
class Adapter(Generic[Options]):
    """An adapter: ``attach`` inserts its parameters into a frozen network, in place."""

    options: type[Options]  # a dataclass whose fields are made by ``option``
    attach: Callable[[nn.Module, Options, torch.Generator], None]


def option(default: Value, help: str, check: Callable[[object], Value]) -> Value:
    """Return a field with a default, a help text and a function that checks and converts values."""
    value: Value = field(default=default, metadata={"help": help, "check": check})
    return value


def integer_from(minimum: int) -> Callable[[object], int]:
    """Return a check for integers from ``minimum`` on."""

    def check(value: object) -> int:
        if not isinstance(value, (int, float)) or isinstance(value, bool) or value % 1 or value < minimum:
            raise ValueError(f"It is a whole number from {minimum} on.")
        return int(value)

    return check


def finite(value: object) -> float:
    """Check that a value is a finite number."""
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError("It is a finite number.")
    return float(value)
