"""The metadata, inputs and outputs of a graph."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from filmtransfer.export import folded_graph
from filmtransfer.export.graph import head_graph, read_metadata
from filmtransfer.heads import HEADS, QDA, make_head
from filmtransfer.model import FeaturePredictor
from filmtransfer.runtime import open_session
from tests.export.small_classifiers import CLASSES, SIDE, classifier, lite0


def test_metadata_inputs_and_outputs():
    clf = classifier(lite0())
    content = folded_graph(clf)
    metadata = read_metadata(content)
    assert metadata["kind"] == "folded"
    assert metadata["classes"] == CLASSES
    assert metadata["pixels"]["size"] == SIDE
    session = open_session(content, 1)
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("pixels", "tensor(uint8)", ["batch", 3, SIDE, SIDE])
    ]
    assert [(o.name, o.type, o.shape) for o in session.get_outputs()] == [
        ("probabilities", "tensor(float)", ["batch", len(CLASSES)]),
        ("logits", "tensor(float)", ["batch", len(CLASSES)]),
        ("features", "tensor(float)", ["batch", 1280]),
        ("ood_score", "tensor(float)", ["batch"]),
        ("rejected", "tensor(bool)", ["batch"]),
    ]
    assert metadata["rejection"] == {"threshold": clf.predictor_.threshold(), "false_alarm": 0.05}
    assert content == folded_graph(clf)


def test_a_classifier_without_a_detector_has_the_outputs_of_earlier_exports():
    content = folded_graph(classifier(lite0(), rejects=False))
    assert [o.name for o in open_session(content, 1).get_outputs()] == ["probabilities", "logits", "features"]
    assert read_metadata(content)["rejection"] is None


@pytest.mark.parametrize("head", HEADS)
def test_the_graph_of_every_head_agrees_with_the_head(head):
    """On features far from the origin, where digits are lost; with a prior and a temperature."""
    generator = torch.Generator().manual_seed(0)
    features = 3 + torch.randn(40, 24, generator=generator) * torch.logspace(-1, 1, 24)
    labels = torch.arange(40) % 4
    query = 3 + 2 * torch.randn(9, 24, generator=generator)
    sides = ("rows", "columns") if head in ("lda", "qda", "mahalanobis") else (None,)
    for side in sides:
        configured = make_head(head, **({} if side is None else {"side": side})).configure(features, labels)
        prior = torch.log(torch.tensor([0.4, 0.3, 0.2, 0.1]))
        probabilities, logits = head_graph(
            replace(FeaturePredictor.of(configured, prior=prior.exp()), temperature=1.7)
        )(query)
        expected = configured.logits(query).double()
        scale = expected.abs().max()
        assert (logits - expected).abs().max() / scale < 1e-5
        assert (probabilities - torch.softmax(expected / 1.7 + prior, 1)).abs().max() < 1e-4


def test_qda_is_precise_in_float32():
    """Few rows in many dimensions: the plain low-rank formula in float32 would be off by whole units."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 1280, generator=generator) * 5
    configured = QDA().configure(features, torch.arange(30) % 3)
    query = features[:5] + 0.1 * torch.randn(5, 1280, generator=generator)
    probabilities, logits = head_graph(FeaturePredictor.of(configured))(query)
    expected = configured.logits(query).double()
    assert (logits - expected).abs().max() / expected.abs().max() < 1e-5
    assert (probabilities - torch.softmax(expected, 1)).abs().max() < 1e-4
