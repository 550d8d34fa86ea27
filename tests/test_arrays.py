"""Every function gives the same for an array and for a tensor."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from filmtransfer import arrays


@pytest.fixture
def matrix(rng):
    rows = rng.normal(size=(5, 4, 6))
    return rows @ rows.swapaxes(1, 2) + np.eye(4)


def same(function, *values):
    expected = function(*(torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in values))
    result = function(*values)
    assert isinstance(result, np.ndarray)
    assert isinstance(expected, torch.Tensor)
    assert result.dtype == expected.numpy().dtype
    np.testing.assert_allclose(result, expected.numpy(), atol=1e-12)
    return result


def test_factors_and_triangular_systems(matrix, rng):
    lower = same(arrays.cholesky, matrix)
    np.testing.assert_allclose(lower @ lower.mT, matrix, atol=1e-12)
    right = rng.normal(size=(4, 3))
    np.testing.assert_allclose(
        lower @ same(arrays.solve_lower, lower, right), np.stack([right] * 5), atol=1e-12
    )
    np.testing.assert_allclose(
        lower[0].mT @ same(arrays.solve_upper, lower[0].mT.copy(), right), right, atol=1e-12
    )


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_a_matrix_that_is_not_positive_definite_is_one_error(kind):
    with pytest.raises(arrays.SingularError):
        arrays.cholesky(kind(-np.eye(2)))


def test_small_functions(rng):
    x, labels = rng.normal(size=(4, 3)), np.array([0, 2, 2, 1])
    same(arrays.unit_rows, x)
    same(arrays.log_softmax, 100 * x)
    same(arrays.at_least, x, 0.1)
    same(arrays.diagonal_matrices, x)
    same(arrays.contiguous, x)
    same(lambda y: arrays.one_hot(y, 3, arrays.cast(y, "float64")), labels)
    same(lambda y: arrays.eye(3, y), x)
    same(lambda y: arrays.zeros((2, 3), y), x)
    same(lambda y: arrays.cast(y, "float32"), x)
    same(lambda y: arrays.concatenate([y, y]), x)
    same(arrays.take_along_rows, x, np.array([[0], [2], [1], [1]]))
    assert not arrays.unit_rows(np.zeros((1, 3))).any()
    assert not arrays.is_finite(np.array([1.0, np.nan]))
    assert arrays.is_floating(x)
    assert not arrays.is_floating(labels)


def test_classes_of_similar_size_are_stacked_and_padded():
    (pair, index, mask), (single, *_) = arrays.stacks_by_size(np.array([1, 0, 1, 2, 2, 2, 0, 3, 2]), 4)[:2]
    assert (pair.tolist(), single.tolist()) == ([0, 1], [2])
    assert index.tolist() == [[1, 6], [0, 2]]
    assert mask.all()
    labels = np.repeat(np.arange(4), [3, 4, 1, 9])
    stacks = arrays.stacks_by_size(labels, 4)
    assert [members.tolist() for members, _, _ in stacks] == [[0, 1], [2], [3]]
    assert stacks[0][1].tolist() == [[0, 1, 2, 0], [3, 4, 5, 6]]
    assert stacks[0][2].tolist() == [[True, True, True, False], [True] * 4]


def test_values_take_the_kind_of_another_array_and_keep_their_gradient():
    parameter = torch.ones(2, requires_grad=True)
    values = arrays.like(parameter, torch.zeros(1, dtype=torch.float64))
    values.sum().backward()
    assert parameter.grad is not None
    assert arrays.like(parameter, np.zeros(1)).dtype == np.float64
    assert arrays.like(np.ones(2), torch.zeros(1)).dtype == torch.float32
    frozen = np.ones(2)
    frozen.flags.writeable = False
    assert arrays.to_tensor(frozen).tolist() == [1, 1]


def test_float64_is_used_only_where_the_device_has_it(monkeypatch):
    monkeypatch.setattr(arrays, "is_tensor", lambda _: True)
    on_mps = SimpleNamespace(device=SimpleNamespace(type="mps"))
    assert arrays.precise(on_mps) is on_mps
    monkeypatch.undo()
    assert arrays.precise(torch.zeros(1)).dtype == torch.float64


@pytest.mark.parametrize("size", [2, arrays.SMALL + 1])
def test_a_singular_triangular_system_is_the_same_error(size):
    singular = np.eye(size)
    singular[-1, -1] = 0
    with pytest.raises(arrays.SingularError):
        arrays.solve_lower(singular, np.ones((size, 1)))
