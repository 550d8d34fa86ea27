"""A folded graph agrees with torch for every head, backbone family and adapter."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from filmtransfer import InputError, UsageError
from filmtransfer.export import (
    compare,
    folded_graph,
    probe_images,
    shared_backbone,
    user_file,
)
from filmtransfer.export.parity import run_folded, run_shared, torch_outputs
from filmtransfer.heads import HEADS
from filmtransfer.model import Body
from filmtransfer.runtime.parity import spread
from tests.export.small_classifiers import FAMILIES, SIDE, classifier, lite0, small_family


@pytest.mark.parametrize("head", HEADS)
def test_a_folded_graph_predicts_as_the_classifier(head):
    clf = classifier(lite0(), head, prior=[0.5, 0.3, 0.2])
    pixels = probe_images(SIDE, 5)
    run = run_folded(folded_graph(clf))
    assert compare(run, clf, pixels).largest < 1e-5
    expected = clf.classify([image.permute(1, 2, 0).numpy() for image in pixels]).probabilities
    assert np.abs(run(pixels.numpy())["probabilities"] - expected).max() < 1e-5


@pytest.mark.parametrize("head", HEADS)
def test_a_folded_graph_rejects_as_the_classifier(head):
    """The same scores from the same features, and the same images rejected, at a rate that divides these images."""
    clf = classifier(lite0(), head, prior=[0.5, 0.3, 0.2])
    pixels = probe_images(SIDE, 16)
    rates = (0.05, 0.49)
    for rate in rates:
        outputs = run_folded(folded_graph(clf, rate))(pixels.numpy())
        predictions = clf.predictor_.predict(outputs["features"])
        assert np.abs(outputs["ood_score"] - clf.predictor_.ood_scores(predictions)).max() < 1e-5
        images = [image.permute(1, 2, 0).numpy() for image in pixels]
        expected = clf.rejected(clf.classify(images), rate)
        assert (outputs["rejected"] == expected).all()
    assert 0 < expected.sum() < len(expected)


def test_the_graph_includes_the_temperature():
    clf = classifier(lite0())
    clf.update_.temperature = 2.5
    pixels = probe_images(SIDE, 3)
    outputs = run_folded(folded_graph(clf))(pixels.numpy())
    logits = torch.from_numpy(outputs["logits"]).double()
    assert np.abs(outputs["probabilities"] - torch.softmax(logits / 2.5, 1).numpy()).max() < 1e-5
    assert np.abs(outputs["probabilities"] - torch.softmax(logits, 1).numpy()).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_backbone_family_is_exported(family):
    clf = classifier(small_family(family))
    pixels = probe_images(clf.model_.pixels.size, 5)
    assert 0.1 < spread(torch_outputs(clf, pixels)["features"]) < 100  # else there is nothing to compare
    assert compare(run_folded(folded_graph(clf)), clf, pixels).largest < 1e-4
    assert compare(run_shared(shared_backbone(clf), user_file(clf)), clf, pixels).largest < 1e-4


@pytest.mark.parametrize("adapter", ["lora", "vpt", "adapter", "adaptformer", "convpass", "noah"])
def test_other_adapters_are_folded_or_traced(adapter):
    clf = classifier(small_family("vision_transformer"), body=Body.of("adapter", adapter))
    assert compare(run_folded(folded_graph(clf)), clf, probe_images(SIDE, 5)).largest < 1e-4
    with pytest.raises(UsageError, match="no backbone that others share"):
        shared_backbone(clf)


@pytest.mark.slow
def test_full_fine_tuning_no_training_and_late_film():
    for body, change in ((Body("all"), 1e-3), (Body("none"), 0.0), (Body(film_from=5), 0.1)):
        clf = classifier(lite0(body.folds), body=body, change=change)
        assert compare(run_folded(folded_graph(clf)), clf, probe_images(SIDE, 4)).largest < 1e-4


def test_a_folded_model_is_not_folded_again():
    from filmtransfer import film

    clf = classifier(small_family("vision_transformer"))
    film.fold(clf.model_.network)
    for export in (folded_graph, shared_backbone):
        with pytest.raises(InputError, match="folded already"):
            export(clf)
