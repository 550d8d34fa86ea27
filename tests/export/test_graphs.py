"""What onnxruntime says of an exported graph is what torch says, for every head, family and adapter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from filmtransfer import InputError, UpdateFileError, UsageError
from filmtransfer.export import (
    SharedSession,
    compare,
    folded_graph,
    probe_images,
    shared_backbone,
    user_file,
    write_folded,
)
from filmtransfer.export import parity as parity_module
from filmtransfer.export.graph import open_session, read_metadata
from filmtransfer.export.head import head_graph
from filmtransfer.export.parity import (
    ParityError,
    check_parity,
    difference,
    run_folded,
    run_shared,
    spread,
    torch_outputs,
)
from filmtransfer.heads import HEADS, QDA, make_head
from filmtransfer.model import Body, Predictor
from tests.export.making import CLASSES, SIDE, classifier, lite0, small


@pytest.mark.parametrize("head", HEADS)
def test_a_folded_graph_is_the_classifier(head):
    clf = classifier(lite0(), head, prior=[0.5, 0.3, 0.2])
    pixels = probe_images(SIDE, 5)
    run = run_folded(folded_graph(clf))
    assert compare(run, clf, pixels).largest < 1e-5
    said = clf.classify([image.permute(1, 2, 0).numpy() for image in pixels]).probabilities
    assert np.abs(run(pixels.numpy())["probabilities"] - said).max() < 1e-5


@pytest.mark.parametrize("head", HEADS)
def test_heads_as_products_are_the_heads(head):
    """On features far from the origin, where digits are lost; with a prior and a temperature."""
    generator = torch.Generator().manual_seed(0)
    features = 3 + torch.randn(40, 24, generator=generator) * torch.logspace(-1, 1, 24)
    labels = torch.arange(40) % 4
    query = 3 + 2 * torch.randn(9, 24, generator=generator)
    sides = ("rows", "columns") if head in ("lda", "qda", "mahalanobis") else (None,)
    for side in sides:
        made = make_head(head, **({} if side is None else {"side": side})).configure(features, labels)
        prior = torch.log(torch.tensor([0.4, 0.3, 0.2, 0.1]))
        probabilities, logits = head_graph(replace(Predictor.of(made, prior=prior.exp()), temperature=1.7))(
            query
        )
        expected = made.logits(query).double()
        scale = expected.abs().max()
        assert (logits - expected).abs().max() / scale < 1e-5
        assert (probabilities - torch.softmax(expected / 1.7 + prior, 1)).abs().max() < 1e-4


def test_qda_keeps_its_digits_in_float32():
    """Few rows in many dimensions: the plain low-rank formula in float32 would be off by whole units."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 1280, generator=generator) * 5
    made = QDA().configure(features, torch.arange(30) % 3)
    query = features[:5] + 0.1 * torch.randn(5, 1280, generator=generator)
    probabilities, logits = head_graph(Predictor.of(made))(query)
    expected = made.logits(query).double()
    assert (logits - expected).abs().max() / expected.abs().max() < 1e-5
    assert (probabilities - torch.softmax(expected, 1)).abs().max() < 1e-4


def test_the_temperature_is_in_the_graph():
    clf = classifier(lite0())
    clf.update_.temperature = 2.5
    pixels = probe_images(SIDE, 3)
    found = run_folded(folded_graph(clf))(pixels.numpy())
    logits = torch.from_numpy(found["logits"]).double()
    assert np.abs(found["probabilities"] - torch.softmax(logits / 2.5, 1).numpy()).max() < 1e-5
    assert np.abs(found["probabilities"] - torch.softmax(logits, 1).numpy()).max() > 0.01


FAMILIES = {
    "resnetv2": ("resnetv2_50x1_bit", {"layers": (1, 1), "channels": (128, 256), "stem_chs": 32}),
    "efficientnet": ("mobilenetv2_050", {}),
    "efficientnetv2": ("tf_efficientnetv2_b0", {"channel_multiplier": 0.5, "depth_multiplier": 0.3}),
    "convnext": ("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}),
    "vision_transformer": (
        "vit_tiny_patch16_224",
        {"depth": 2, "embed_dim": 24, "num_heads": 3, "dynamic_img_size": True},
    ),
    "resnet": ("resnet18", {"layers": (1, 1, 1, 1)}),
    "mobilenetv3": ("mobilenetv3_small_050", {}),
    "regnet": ("regnety_002", {}),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_folded_and_shared(family):
    name, settings = FAMILIES[family]
    clf = classifier(small(name, **settings))
    pixels = probe_images(clf.model_.pixels.size, 5)
    assert 0.1 < spread(torch_outputs(clf, pixels)["features"]) < 100  # else there is nothing to compare
    assert compare(run_folded(folded_graph(clf)), clf, pixels).largest < 1e-4
    assert compare(run_shared(shared_backbone(clf), user_file(clf)), clf, pixels).largest < 1e-4


def test_a_fault_in_the_graph_is_seen(monkeypatch):
    """BiT without the care for its max-pool, as onnxruntime would have it."""
    monkeypatch.setattr("filmtransfer.export.graph._keep_pads", lambda onnx, model: None)
    name, settings = FAMILIES["resnetv2"]
    clf = classifier(small(name, **settings))
    with pytest.raises(ParityError):
        check_parity(run_folded(folded_graph(clf)), clf)


def test_differences_are_measured_in_parts_of_the_spread():
    values = np.array([[5.0, 0.0], [5.0, 0.02]])  # 5 says nothing about an image
    assert spread(values) == pytest.approx(0.01)
    assert difference(values + 1e-3, values, spread(values)) == pytest.approx(0.1)
    same = np.full((2, 3), 7.0)
    assert difference(same, same, spread(same)) == 0
    assert difference(same + 1e-9, same, spread(same)) == np.inf
    assert difference(values * np.nan, values, spread(values)) == np.inf


VIT = ("vit_tiny_patch16_224", {"depth": 2, "embed_dim": 24, "num_heads": 3, "dynamic_img_size": True})


@pytest.mark.parametrize("adapter", ["lora", "vpt", "adapter", "adaptformer", "convpass", "noah"])
def test_other_adapters_are_folded_or_traced(adapter):
    clf = classifier(small(VIT[0], **VIT[1]), body=Body.of("adapter", adapter))
    assert compare(run_folded(folded_graph(clf)), clf, probe_images(SIDE, 5)).largest < 1e-4
    with pytest.raises(UsageError, match="no backbone that others share"):
        shared_backbone(clf)


def test_all_weights_none_and_late_film():
    for body, move in ((Body("all"), 1e-3), (Body("none"), 0.0), (Body(film_from=5), 0.1)):
        clf = classifier(lite0(body.folds), body=body, move=move)
        assert compare(run_folded(folded_graph(clf)), clf, probe_images(SIDE, 4)).largest < 1e-4


def test_two_users_in_one_batch_are_their_folded_graphs():
    users = {
        "ana": classifier(lite0(), "lda"),
        "ben": classifier(lite0(), "qda", seed=7, body=Body(film_from=4)),
    }
    backbone = shared_backbone(users["ana"])
    assert backbone == shared_backbone(users["ben"])  # nothing of a user is in it
    made = SharedSession(backbone)
    for name, clf in users.items():
        content = user_file(clf)
        assert len(content) < 400_000
        made.add(name, content)
    pixels, order = probe_images(SIDE, 6).numpy(), ["ana", "ben", "ben", "ana", "ana", "ben"]
    together = made.run(pixels, order)
    for name, clf in users.items():
        alone = run_folded(folded_graph(clf))(pixels)
        for i in [i for i, user in enumerate(order) if user == name]:
            assert np.abs(together[i]["probabilities"] - alone["probabilities"][i]).max() < 1e-5
    with pytest.raises(InputError, match="no user eve"):
        made.run(pixels[:1], ["eve"])
    with pytest.raises(UpdateFileError, match="not a user"):
        made.add("eve", folded_graph(users["ana"]))


def test_the_graph_tells_what_it_is():
    clf = classifier(lite0())
    content = folded_graph(clf)
    told = read_metadata(content)
    assert told["kind"] == "folded"
    assert told["classes"] == CLASSES
    assert told["pixels"]["size"] == SIDE
    inside = open_session(content)
    assert [(i.name, i.type, i.shape) for i in inside.get_inputs()] == [
        ("pixels", "tensor(uint8)", ["batch", 3, SIDE, SIDE])
    ]
    assert [o.name for o in inside.get_outputs()] == ["probabilities", "logits", "features"]
    assert content == folded_graph(clf)


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


def test_a_folded_model_is_not_folded_again():
    from filmtransfer import film

    clf = classifier(small(VIT[0], **VIT[1]))
    film.fold(clf.model_.network)
    for export in (folded_graph, shared_backbone):
        with pytest.raises(InputError, match="folded already"):
            export(clf)
