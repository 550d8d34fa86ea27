"""A sequence whose elements are made when they are asked for."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """``length`` elements, the i-th of which is ``make(i)``: images too many to be decoded together."""

    def __init__(self, length: int, make: Callable[[int], T]) -> None:
        self.length = length
        self.make = make

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: Any) -> Any:
        span = range(self.length)  # it knows negative indices, slices and where to stop
        if isinstance(index, slice):
            chosen = span[index]
            return LazySequence(len(chosen), lambda i: self.make(chosen[i]))
        return self.make(span[operator.index(index)])
