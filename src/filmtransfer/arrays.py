"""One spelling for numpy arrays and torch tensors, so that every formula is written once.

Training computes with tensors, which have gradients and devices. Prediction and editing compute with numpy arrays:
importing torch takes longer than all of their arithmetic. This module never imports torch itself: whoever passes a
tensor has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = Any  # numpy.ndarray or torch.Tensor
SMALL = 256  # up to here numpy's general solver takes less time than importing scipy's triangular one


class SingularError(ArithmeticError):
    """A matrix is not positive definite, for example because features or weights are no longer finite."""


def is_tensor(x: Array) -> bool:
    """Tell whether x is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def namespace(x: Array) -> ModuleType:
    """Return the module with the functions for x: torch or numpy."""
    return sys.modules["torch"] if is_tensor(x) else np


def to_numpy(x: Array) -> np.ndarray:
    """Return a tensor or an array as a numpy array, without its graph."""
    if is_tensor(x):
        return x.detach().cpu().numpy()  # type: ignore[no-any-return]
    return np.asarray(x)


def to_tensor(x: Array) -> Array:
    """Return a tensor or an array as a tensor; memory is shared where it can be. This imports torch."""
    import torch

    if is_tensor(x):
        return x
    array = np.asarray(x)
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def like(values: Array, x: Array) -> Array:
    """Return values as an array of the kind of x, with its dtype and on its device; a gradient is kept."""
    if is_tensor(x):
        return to_tensor(values).to(x)
    return to_numpy(values).astype(x.dtype, copy=False)


def labels_like(labels: Array, x: Array) -> Array:
    """Return labels as integers of the kind of x; those of tensors stay on the CPU."""
    return to_tensor(labels).cpu() if is_tensor(x) else to_numpy(labels)


def on_device(labels: Array, x: Array) -> Array:
    """Return labels or indices where they can index x."""
    return labels.to(x.device) if is_tensor(x) else labels


def dtype_name(x: Array) -> str:
    """Return the name of the dtype, as in "float32"."""
    return str(x.dtype).removeprefix("torch.")


def cast(x: Array, dtype: str) -> Array:
    """Return x with the dtype of this name."""
    return x.to(getattr(namespace(x), dtype)) if is_tensor(x) else x.astype(dtype, copy=False)


def precise(x: Array) -> Array:
    """Return x in float64, where the device has it: Apple's GPUs do not."""
    on_mps = is_tensor(x) and x.device.type == "mps"
    return x if on_mps else cast(x, "float64")


def on_cpu(x: Array) -> Array:
    """Return x in memory that the CPU can read."""
    return x.cpu() if is_tensor(x) else x


def is_floating(x: Array) -> bool:
    """Tell whether x holds real numbers."""
    return bool(x.is_floating_point()) if is_tensor(x) else bool(np.issubdtype(x.dtype, np.floating))


def is_finite(x: Array) -> bool:
    """Tell whether all values are finite."""
    return bool(namespace(x).isfinite(x).all())


def eye(size: int, x: Array) -> Array:
    """Return the identity matrix, of the kind of x."""
    if is_tensor(x):
        return namespace(x).eye(size, dtype=x.dtype, device=x.device)
    return np.eye(size, dtype=x.dtype)


def one_hot(labels: Array, classes: int, x: Array) -> Array:
    """Return 1 at the label of each row and 0 elsewhere (N, C), of the kind of x."""
    columns = to_tensor(np.arange(classes)) if is_tensor(labels) else np.arange(classes)
    return like(labels[:, None] == columns, x)


def at_least(x: Array, low: float) -> Array:
    """Return x with smaller values replaced by ``low``."""
    return x.clamp(min=low) if is_tensor(x) else np.maximum(x, low)


def cholesky(matrix: Array) -> Array:
    """Compute the lower factor L of one positive definite matrix L Lᵀ, or of a stack of them."""
    xp = namespace(matrix)
    try:
        return xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError) as error:  # torch's error is a RuntimeError
        raise SingularError(str(error)) from None


def solve_lower(lower: Array, right: Array) -> Array:
    """Solve L x = r for a lower triangular matrix, or for each of a stack."""
    return _solve_triangular(lower, right, upper=False)


def solve_upper(upper: Array, right: Array) -> Array:
    """Solve U x = r for an upper triangular matrix, or for each of a stack."""
    return _solve_triangular(upper, right, upper=True)


def _solve_triangular(matrix: Array, right: Array, upper: bool) -> Array:
    if is_tensor(matrix):
        return namespace(matrix).linalg.solve_triangular(matrix, right, upper=upper)
    try:
        if matrix.shape[-1] <= SMALL:
            return np.linalg.solve(matrix, right)
        if matrix.ndim == 2 and right.ndim == 2:
            from scipy.linalg import solve_triangular

            return solve_triangular(matrix, right, lower=not upper, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise SingularError(str(error)) from None
    right = np.broadcast_to(right, (*matrix.shape[:-2], *right.shape[-2:]))
    return np.stack([_solve_triangular(m, r, upper) for m, r in zip(matrix, right, strict=True)])


def unit_rows(x: Array) -> Array:
    """Return each row divided by its length; a row of zeros stays one."""
    lengths = namespace(x).sqrt((x * x).sum(1))[:, None]
    return x / at_least(lengths, 1e-12)


def log_softmax(x: Array) -> Array:
    """Compute the logarithm of the softmax of each row."""
    if is_tensor(x):
        return namespace(x).log_softmax(x, 1)
    shifted = x - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def take_along_rows(x: Array, index: Array) -> Array:
    """Return x[i, index[i, j]] (N, M)."""
    return x.gather(1, index) if is_tensor(x) else np.take_along_axis(x, index, 1)


def diagonal_matrices(x: Array) -> Array:
    """Return a stack of diagonal matrices (C, N, N) from their diagonals (C, N)."""
    return x[:, :, None] * eye(x.shape[1], x)


def stacks_by_size(labels: Array, classes: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Group classes whose numbers of rows are below the same power of two, so that padding at most doubles a class.

    Each group has its classes (G), their rows (G, n), padded with 0, and a mask of the entries that are not padding.
    """
    rows = [np.flatnonzero(to_numpy(labels) == c) for c in range(classes)]
    groups: dict[int, list[int]] = {}
    for c, members in enumerate(rows):
        groups.setdefault((len(members) - 1).bit_length(), []).append(c)
    return [(np.array(group), *_padded([rows[c] for c in group])) for group in groups.values()]


def _padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    longest = max(map(len, rows))
    index, mask = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), bool)
    for c, members in enumerate(rows):
        index[c, : len(members)], mask[c, : len(members)] = members, True
    return index, mask


def argsort(x: Array) -> Array:
    """Return the indices that sort x, which has no equal values."""
    return namespace(x).argsort(x)


def concatenate(parts: Sequence[Array]) -> Array:
    """Join arrays of one kind along the first axis."""
    return namespace(parts[0]).concatenate(list(parts))


def contiguous(x: Array) -> Array:
    """Return x in the order of memory that its shape suggests."""
    return x.contiguous() if is_tensor(x) else np.ascontiguousarray(x)


def zeros(shape: tuple[int, ...], x: Array) -> Array:
    """Return zeros, of the kind of x."""
    return like(np.zeros(shape), x)
