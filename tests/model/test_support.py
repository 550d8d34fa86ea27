"""Features are stored in 16 bits, each photo by itself, and old files with float32 features stay readable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from filmtransfer.errors import UpdateFileError
from filmtransfer.model import Support
from filmtransfer.model.support import LEVELS, dequantise, quantise

FEATURES = arrays(
    np.float32,
    st.tuples(st.integers(0, 5), st.integers(1, 8)),
    elements=st.floats(-(2.0**20), 2.0**20, width=32),
)


def make(features: np.ndarray) -> Support:
    count = len(features)
    names = [f"cup/{i}.jpg" for i in range(count)]
    return Support(features, np.arange(count), np.ones(count, bool), names, ["0" * 32] * count)


def written_and_read(support: Support) -> Support:
    tensors = {name.removeprefix("support/"): tensor for name, tensor in support.tensors().items()}
    return Support.read(tensors, support.metadata())


@given(FEATURES)
def test_rounding_is_at_most_half_a_level_of_the_row(features):
    levels, scales = quantise(features)
    assert levels.dtype == np.int16
    largest = np.abs(features).max(1, initial=0, keepdims=True).astype(np.float64)
    error = np.abs(dequantise(levels, scales) - features.astype(np.float64))
    normal = 1e-30  # below that the scale itself is a denormal number
    assert (error <= 0.51 * largest / LEVELS + 1e-7 * largest + normal).all()


@given(FEATURES)
def test_writing_what_was_read_gives_the_same_features(features):
    once = written_and_read(make(features))
    twice = written_and_read(once)
    np.testing.assert_allclose(twice.features, once.features, rtol=2e-7)


@pytest.mark.parametrize("scale", [3e38, 1e15, -1.0])
def test_scales_that_lead_to_infinite_distances_are_refused(scale):
    levels = np.full((1, 4), 32767, np.int16)
    with pytest.raises(UpdateFileError, match="out of range"):
        dequantise(levels, np.array([scale], np.float32))


def test_the_rows_of_the_others_do_not_depend_on_a_forgotten_photo(rng):
    features = rng.normal(size=(6, 40)).astype(np.float32)
    features[2] *= 1000
    kept = np.array([0, 1, 3, 4, 5])
    complete, without = make(features).tensors(), make(features).select(kept).tensors()
    for name in ("support/features", "support/scales"):
        np.testing.assert_array_equal(complete[name][kept], without[name])


def test_features_of_zeros_are_stored():
    features = np.zeros((2, 3), np.float32)
    np.testing.assert_array_equal(written_and_read(make(features)).features, features)


def test_a_file_with_float32_features_is_read_as_it_is(rng):
    features = rng.normal(size=(3, 4)).astype(np.float32)
    tensors = {"features": features, "labels": np.arange(3), "unseen": np.ones(3, np.uint8)}
    support = Support.read(tensors, None)
    np.testing.assert_array_equal(support.features, features)
    assert support.names == ["image 0", "image 1", "image 2"]


@pytest.mark.parametrize(
    ("levels", "scales"),
    [
        (np.zeros((3, 4), np.int32), np.ones(3, np.float32)),
        (np.zeros((3, 4), np.int16), np.ones(2, np.float32)),
        (np.zeros((3, 4), np.int16), np.ones(3, np.float64)),
        (np.zeros((3, 4), np.int16), np.ones((3, 1), np.float32)),
    ],
)
def test_scales_that_do_not_fit_are_refused(levels, scales):
    tensors = {"features": levels, "scales": scales, "labels": np.arange(3)}
    with pytest.raises(UpdateFileError, match="scales"):
        Support.read(tensors, None)
