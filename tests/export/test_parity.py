"""Graphs that differ from torch are detected and not written."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.export import (
    folded_graph,
    write_folded,
)
from filmtransfer.export import parity as parity_module
from filmtransfer.export.parity import check_parity, run_folded, torch_outputs
from filmtransfer.runtime.parity import ParityError
from tests.export.small_classifiers import classifier, lite0, small_family


def test_an_incorrect_graph_is_detected(monkeypatch):
    """BiT without the care for its max-pool, as onnxruntime would have it."""
    monkeypatch.setattr("filmtransfer.runtime.tracing._keep_pads", lambda onnx, model: None)
    clf = classifier(small_family("resnetv2"))
    with pytest.raises(ParityError):
        check_parity(run_folded(folded_graph(clf)), clf)


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


def test_a_wrong_or_missing_ood_score_is_detected():
    clf = classifier(lite0())

    def run(pixels, change):
        outputs = torch_outputs(clf, torch.from_numpy(pixels))
        change(outputs)
        return outputs

    assert check_parity(lambda pixels: run(pixels, lambda outputs: None), clf).ood_score == 0
    with pytest.raises(ParityError, match="OOD score"):
        check_parity(lambda pixels: run(pixels, lambda o: o.update(ood_score=o["ood_score"] + 0.01)), clf)
    with pytest.raises(ParityError, match="cannot run the graph"):
        check_parity(lambda pixels: run(pixels, lambda o: o.pop("ood_score")), clf)
    cannot_reject = classifier(lite0(), rejects=False)
    assert check_parity(run_folded(folded_graph(cannot_reject)), cannot_reject).ood_score is None
