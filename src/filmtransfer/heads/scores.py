"""Heads as plain products of float32 arrays, so that they can be traced into a graph.

A logit is split into a part that distinguishes the classes and a part that all of them share,

    logit_c = r_c(z) + s(z)        p(y=c | z) = softmax(r_c / T + log π_c)

The shared part s can be hundreds of times larger; without it the softmax loses no digits. All matrices are computed
in float64 and stored as float32.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import numpy as np

from ..arrays import Array, to_numpy


class Scores(ABC):
    """Features (B, D) → r (B, C) and s (B, 1), or (B, C) zeros."""

    @abstractmethod
    def __call__(self, z: Array) -> tuple[Array, Array]:
        """Compute r and s of features of the kind of the kept arrays."""

    def keep(self, **arrays: Array) -> None:
        """Keep arrays in float32 as attributes."""
        for name, array in arrays.items():
            setattr(self, name, np.ascontiguousarray(to_numpy(array), np.float32))

    def kept(self) -> dict[str, Array]:
        """Return the kept arrays by name."""
        return {name: value for name, value in vars(self).items() if hasattr(value, "dtype")}

    def map(self, function: Callable[[str, Array], Array]) -> Self:
        """Return a copy in which a function has replaced every kept array."""
        changed = copy.copy(self)
        for name, array in self.kept().items():
            setattr(changed, name, function(name, array))
        return changed


class AffineScores(Scores):
    """r = W (z − m) + b, s = −a ‖z − m‖²."""

    weight: Array
    bias: Array
    mean: Array

    def __init__(self, weight: Array, bias: Array, mean: Array | None = None, square: float = 0.0) -> None:
        self.square, self.centred = square, mean is not None
        self.keep(weight=weight.mT, bias=bias, mean=np.zeros(1) if mean is None else mean)

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """Compute r and s."""
        z = z - self.mean if self.centred else z
        relative = z @ self.weight + self.bias
        if not self.square:
            return relative, 0 * relative
        return relative, -self.square * (z * z).sum(1)[:, None]


class QuadraticScores(Scores):
    """r_c = b_c − a ‖W_c v − o_c‖² with v = z − m, or its coordinates in an orthonormal basis.

    With a basis V (D, R) what of z lies outside its span is at the same distance from every class:
    s = −a ‖(I − VVᵀ)(z − m)‖².
    """

    mean: Array
    whiten: Array
    offset: Array
    bias: Array
    basis: Array

    def __init__(
        self,
        mean: Array,
        whiten: Array,
        centres: Array,
        bias: Array,
        scale: float,
        basis: Array | None = None,
    ) -> None:
        self.classes, self.rows = whiten.shape[:2]
        self.scale, self.projected = scale, basis is not None
        offset = np.einsum("cde,ce->cd", whiten, centres)
        self.keep(
            mean=mean, whiten=whiten.reshape(-1, whiten.shape[2]).T, offset=offset.reshape(-1), bias=bias
        )
        self.keep(basis=np.zeros(1) if basis is None else basis)

    def __call__(self, z: Array) -> tuple[Array, Array]:
        """Compute r and s."""
        z = z - self.mean
        v = z @ self.basis if self.projected else z
        white = (v @ self.whiten - self.offset).reshape(-1, self.classes, self.rows)
        relative = self.bias - self.scale * (white * white).sum(2)
        if not self.projected:
            return relative, 0 * relative
        outside = z - v @ self.basis.T
        return relative, -self.scale * (outside * outside).sum(1)[:, None]
