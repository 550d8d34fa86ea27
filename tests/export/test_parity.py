"""Graphs that differ from torch are detected and not written."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from filmtransfer.export import (
    folded_graph,
    write_folded,
)
from filmtransfer.export import parity as parity_module
from filmtransfer.export.parity import (
    ParityError,
    check_parity,
    difference,
    run_folded,
    spread,
    torch_outputs,
)
from tests.export.small_classifiers import classifier, lite0, small_family


def test_an_incorrect_graph_is_detected(monkeypatch):
    """BiT without the care for its max-pool, as onnxruntime would have it."""
    monkeypatch.setattr("filmtransfer.export.graph._keep_pads", lambda onnx, model: None)
    clf = classifier(small_family("resnetv2"))
    with pytest.raises(ParityError):
        check_parity(run_folded(folded_graph(clf)), clf)


def test_differences_are_relative_to_the_spread():
    values = np.array([[5.0, 0.0], [5.0, 0.02]])  # 5 says nothing about an image
    assert spread(values) == pytest.approx(0.01)
    assert difference(values + 1e-3, values, spread(values)) == pytest.approx(0.1)
    same = np.full((2, 3), 7.0)
    assert difference(same, same, spread(same)) == 0
    assert difference(same + 1e-9, same, spread(same)) == np.inf
    assert difference(values * np.nan, values, spread(values)) == np.inf


def test_a_graph_that_differs_is_not_written(tmp_path, monkeypatch):
    clf = classifier(lite0())
    wrong = lambda pixels: {k: v + 1e-3 for k, v in torch_outputs(clf, torch.from_numpy(pixels)).items()}  # noqa: E731
    with pytest.raises(ParityError, match="nothing was written"):
        check_parity(wrong, clf)
    monkeypatch.setattr(parity_module, "TOLERANCE", 0.0)
    monkeypatch.setattr(
        "filmtransfer.export.write.check_parity", lambda run, clf: check_parity(run, clf, 0.0)
    )
    with pytest.raises(ParityError):
        write_folded(clf, tmp_path / "a.onnx")
    assert not list(tmp_path.iterdir())
