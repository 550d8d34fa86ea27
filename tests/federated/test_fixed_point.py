"""Fixed-point encoding: sums within the limit never overflow, and anything else is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filmtransfer.errors import InputError
from filmtransfer.federated.fixed_point import from_fixed_point, largest_value, to_fixed_point


@given(st.integers(1, 10_000), st.integers(0, 40), st.floats(-1, 1))
@settings(deadline=None)
def test_no_sum_within_the_limit_overflows(clients, bits, share):
    value = share * largest_value(bits, clients)
    integers = to_fixed_point({"x": [value]}, {"x": (1,)}, bits, clients)
    assert abs(int(integers.view(np.int64)[0]) * clients) < 2**63
    assert from_fixed_point(integers, {"x": (1,)}, bits)["x"][0] == pytest.approx(
        value, abs=2.0 ** -(bits + 1), rel=1e-15
    )


def test_what_cannot_be_summed_is_refused():
    shapes = {"x": (2,)}
    assert largest_value(24, 10_000) > 2e7
    with pytest.raises(InputError, match="could overflow"):
        to_fixed_point({"x": [0, 3e7]}, shapes, 24, 10_000)
    with pytest.raises(InputError, match="not finite"):
        to_fixed_point({"x": [0, np.nan]}, shapes, 24, 2)
    with pytest.raises(InputError, match="shape"):
        to_fixed_point({"x": [0, 1, 2]}, shapes, 24, 2)
    with pytest.raises(InputError, match="differ from the requested ones: y"):
        to_fixed_point({"x": [0, 1], "y": [1]}, shapes, 24, 2)
