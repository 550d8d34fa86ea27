"""The metadata, inputs and outputs of a graph."""

from __future__ import annotations

from filmtransfer.export import (
    folded_graph,
)
from filmtransfer.export.graph import open_session, read_metadata
from tests.export.small_classifiers import CLASSES, SIDE, classifier, lite0


def test_metadata_inputs_and_outputs():
    clf = classifier(lite0())
    content = folded_graph(clf)
    metadata = read_metadata(content)
    assert metadata["kind"] == "folded"
    assert metadata["classes"] == CLASSES
    assert metadata["pixels"]["size"] == SIDE
    session = open_session(content)
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [
        ("pixels", "tensor(uint8)", ["batch", 3, SIDE, SIDE])
    ]
    assert [o.name for o in session.get_outputs()] == ["probabilities", "logits", "features"]
    assert content == folded_graph(clf)
