"""A sequence that computes its elements on access."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import SupportsIndex, TypeVar, overload

T = TypeVar("T")


class LazySequence(Sequence[T]):
    """A sequence of ``length`` elements, the i-th of which is ``make(i)``; used for images that do not fit in memory."""

    def __init__(self, length: int, make: Callable[[int], T]) -> None:
        self.length = length
        self.make = make

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> LazySequence[T]: ...
    def __getitem__(self, index: SupportsIndex | slice) -> T | LazySequence[T]:
        indices = range(self.length)  # handles negative indices, slices and bounds
        if isinstance(index, slice):
            chosen = indices[index]
            return LazySequence(len(chosen), lambda i: self.make(chosen[i]))
        return self.make(indices[operator.index(index)])
