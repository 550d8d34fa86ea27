"""Graphs that differ from torch are detected."""

from __future__ import annotations

import numpy as np
import pytest

from filmtransfer.runtime.parity import ParityError, check_features, difference, spread
from tests.export.small_classifiers import lite0
from tests.runtime.conftest import lite0_session, small_spec


def test_differences_are_relative_to_the_spread():
    values = np.array([[5.0, 0.0], [5.0, 0.02]])  # 5 says nothing about an image
    assert spread(values) == pytest.approx(0.01)
    assert difference(values + 1e-3, values, spread(values)) == pytest.approx(0.1)
    same = np.full((2, 3), 7.0)
    assert difference(same, same, spread(same)) == 0
    assert difference(same + 1e-9, same, spread(same)) == np.inf
    assert difference(values * np.nan, values, spread(values)) == np.inf


def test_a_graph_that_differs_is_refused(monkeypatch):
    session = lite0_session()
    right = session.features
    monkeypatch.setattr(session, "features", lambda *inputs: right(*inputs) + 1e-2)
    with pytest.raises(ParityError, match="efficientnet_lite0 differs from torch"):
        check_features(session, lite0(), small_spec(lite0()))
    monkeypatch.setattr(session, "features", lambda *inputs: right(*inputs) * np.nan)
    with pytest.raises(ParityError, match="inf"):
        check_features(session, lite0(), small_spec(lite0()))


def test_rows_in_another_order_are_noticed(monkeypatch):
    """The probe's users differ, so that an exchange of two of them cannot pass."""
    session = lite0_session()
    right = session.features
    monkeypatch.setattr(session, "features", lambda p, gamma, beta: right(p, gamma[::-1], beta[::-1]))
    with pytest.raises(ParityError):
        check_features(session, lite0(), small_spec(lite0()))
