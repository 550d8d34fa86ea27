"""Multi-user batches equal single predictions for every head, and refuse what does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from filmtransfer import FewShotClassifier
from filmtransfer.errors import InputError, UpdateFileError
from filmtransfer.heads import HEADS, QDA, SingularError, make_head
from filmtransfer.model import AdaptedModel, Body, Update
from filmtransfer.model.tensors import normalise
from filmtransfer.serve.engine.multi_user import Answer, Engine
from filmtransfer.serve.engine.torch_features import TorchFeatures

from .. import updates
from ..updates import SIZE, backbone, in_float64, photo, update

USERS = {
    "lda": {},
    "qda": {"head": "qda"},
    "protonets": {"head": "protonets"},
    "linear": {"head": "linear"},
    "late FiLM": {"film_from": 5},
    "late FiLM, qda": {"film_from": 3, "head": "qda"},
    "no FiLM": {"train": "none"},
    "prior": {"prior": [0.7, 0.2, 0.1]},
    "empirical": {"prior": "empirical", "head": "protonets"},
    "one shot": {"shots": 1},
    "one shot, qda": {"shots": 1, "head": "qda"},
}


@pytest.fixture(scope="module", params=["onnx", "torch"])
def engine(request) -> Engine:
    return updates.engine(SIZE, request.param, (32,))


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return {name: update(i, **choices).to_bytes() for i, (name, choices) in enumerate(USERS.items())}


def predict_alone(content: bytes, image: bytes, folder: Path) -> dict[str, float]:
    """Predict with the estimator."""
    file = folder / "update.safetensors"
    file.write_bytes(content)
    classifier = FewShotClassifier.load(file, backbone=backbone())
    return dict(zip(classifier.classes_.tolist(), classifier.classify([image]).probabilities[0], strict=True))


def assert_same(answer: Answer, expected: dict[str, float], tolerance: float = 1e-5) -> None:
    probabilities = dict(answer.classes)
    assert probabilities.keys() == expected.keys()
    assert max(abs(probabilities[name] - p) for name, p in expected.items()) < tolerance
    ordered = [p for _, p in answer.classes]
    assert ordered == sorted(ordered, reverse=True)


@pytest.mark.slow
def test_a_multi_user_batch_equals_single_predictions(engine, files, tmp_path):
    members = {name: engine.member(content) for name, content in files.items()}
    order = [name for name in members for _ in range(2)]  # every member twice, with different images
    images = [photo(i % 3, 50 + i) for i in range(len(order))]
    pixels = np.stack([engine.pixels(image) for image in images])
    answers = engine.answers([members[name] for name in order], pixels)
    for name, image, answer in zip(order, images, answers, strict=True):
        assert_same(answer, predict_alone(files[name], image, tmp_path))
        assert not answer.rejected
    sure = [answer.classes[0][1] for answer in answers]
    assert min(sure) < 0.999, "some are in doubt: else the comparison says little"


def test_the_order_and_the_other_images_do_not_matter(engine, files):
    members = [engine.member(content) for content in files.values()]
    pixels = np.stack([engine.pixels(photo(i % 3, i)) for i in range(len(members))])
    together = engine.answers(members, pixels)
    backwards = engine.answers(members[::-1], pixels[::-1])[::-1]
    alone = [engine.answers([m], p[None])[0] for m, p in zip(members, pixels, strict=True)]
    for answer, other, single in zip(together, backwards, alone, strict=True):
        assert_same(answer, dict(other.classes))
        assert_same(answer, dict(single.classes))
    assert engine.answers([], pixels[:0]) == []


def test_the_same_image_for_different_users(engine, files):
    """Each user's FiLM parameters are used: the features differ, not only the heads."""
    member, other = engine.member(files["lda"]), engine.member(update(77).to_bytes())
    pixels = engine.pixels(photo(1, 5))
    mine, theirs = engine.answers([member, replace(member, film=other.film)], np.stack([pixels, pixels]))
    assert abs(mine.classes[0][1] - dict(theirs.classes)[mine.classes[0][0]]) > 1e-4


def test_image_sizes_are_grouped(engine, files, tmp_path):
    small = update(5, size=32).to_bytes()
    members = [engine.member(files["lda"]), engine.member(small), engine.member(files["qda"])]
    images = [photo(i, 70 + i) for i in range(3)]
    pixels = [engine.pixels(image, member.spec) for image, member in zip(images, members, strict=True)]
    assert [p.shape[-1] for p in pixels] == [SIZE, 32, SIZE]
    answers = engine.answers(members, pixels)
    for answer, content, image in zip(answers, [files["lda"], small, files["qda"]], images, strict=True):
        assert_same(answer, predict_alone(content, image, tmp_path))
    with pytest.raises(InputError, match="takes uint8 of shape"):
        engine.answers(members, np.stack([pixels[0]] * 3))
    with pytest.raises(InputError, match="3 members but 2 images"):
        engine.answers(members, pixels[:2])
    with pytest.raises(InputError, match="takes uint8"):
        engine.answers(members[:1], pixels[0][None].astype(np.float32))


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_float64(head):
    """With a backbone in float64 a multi-user batch equals single predictions up to the rounding of a float32 head."""
    wide = in_float64(backbone())
    engine = Engine(TorchFeatures(wide, SIZE))
    made = [update(30 + i, head, film_from=i) for i in range(2)]
    members = [engine.member(one.to_bytes()) for one in made]
    pixels = np.stack([engine.pixels(photo(i, i)) for i in range(2)])
    answers = engine.answers(members, pixels)
    for one, answer, square in zip(made, answers, pixels, strict=True):
        model = one.apply(wide).double()
        for name, parameter in model.backbone_parameters().items():
            parameter.data.copy_(torch.from_numpy(one.parameters[name]))
        with torch.no_grad():
            features = model.network(normalise(torch.from_numpy(square[None]), model.pixels).double())
            own = one.restore_head(torch.empty(0, dtype=torch.float64))
            expected = torch.softmax(own.logits(features), 1)[0].tolist()
        assert_same(answer, dict(zip(one.classes, expected, strict=True)), 1e-7)


@pytest.mark.slow
def test_memory_is_that_of_the_update_without_statistics(engine):
    for head in ("lda", "protonets", "linear"):
        content = update(3, head, shots=30, keep=True).to_bytes()
        plain = update(3, head, shots=30).to_bytes()
        assert len(content) > 3 * len(plain), "the file keeps support features"
        assert engine.member(content).nbytes < 1.2 * len(plain)
        late = update(3, head, film_from=6).to_bytes()
        assert engine.member(late).nbytes < 1.2 * len(late), "FiLM that begins late takes less"


def test_what_cannot_be_served_is_refused(engine, files):
    assert engine.check(files["lda"]).classes == ["bars of 0", "disc of 0", "plain of 0"]
    good = Update.from_bytes(files["lda"])
    with pytest.raises(UpdateFileError, match=r"The file is not an? .*update file"):
        engine.check(b"nonsense")
    with pytest.raises(UpdateFileError, match="made with efficientnet_lite0") as error:
        engine.check(replace(good, backbone_digest="0" * 64).to_bytes())
    assert "efficientnet_lite0" in error.value.hint
    model = AdaptedModel(backbone(), make_head("protonets"), SIZE, body=Body.of("adapter", "lora"))
    model.head.configure(torch.randn(4, 1280), torch.tensor([0, 0, 1, 1]))
    other = Update.of(model, ["a", "b"], settings={"adapter": "lora"}, results={}, seed=0, versions={})
    with pytest.raises(UpdateFileError, match="adapter lora; only FiLM") as error:
        engine.check(other.to_bytes())
    assert "film" in error.value.hint
    with pytest.raises(UpdateFileError, match="all weights"):
        engine.check(replace(good, settings={"train": "all"}).to_bytes())
    with pytest.raises(UpdateFileError, match="stage 99"):
        engine.check(replace(good, settings={"film_from": 99}).to_bytes())
    with pytest.raises(UpdateFileError, match="another backbone"):
        engine.check(replace(good, settings={"film_from": 5}).to_bytes())
    with pytest.raises(UpdateFileError, match="has shapes"):
        engine.check(replace(good, classes=["a", "b"], counts=[1, 1]).to_bytes())


def test_pixels_are_decoded_and_broken_images_refused(engine):
    assert engine.pixels(photo(0, 0)).shape == (3, SIZE, SIZE)
    for bad in (b"", b"not an image", photo(0, 0)[:200]):
        with pytest.raises(InputError):
            engine.pixels(bad)


def test_rejection_and_temperature(engine, files):
    """An out-of-distribution image is rejected; the temperature changes the probabilities."""

    class Always:
        def scores(self, features: np.ndarray, logits: np.ndarray) -> np.ndarray:
            assert len(logits) == len(features)
            return np.full(len(features), 0.25)

    member = engine.member(files["lda"])
    pixels = engine.pixels(photo(2, 9))[None]
    sure = engine.answers([member], pixels)[0]
    predictor = replace(member.predictor, ood=Always(), temperature=50.0)
    doubtful = replace(member, predictor=predictor, threshold=0.5)
    (answer,) = engine.answers([doubtful], pixels)
    assert answer.rejected
    assert answer.ood_score == 0.25
    assert answer.classes[0][1] < sure.classes[0][1]
    assert not engine.answers([replace(doubtful, threshold=0.1)], pixels)[0].rejected
    with pytest.raises(UpdateFileError, match="not finite"):
        engine.answers([replace(member, film=member.film * np.nan)], pixels)


def test_crafted_updates_cost_an_error_and_no_graph(files, monkeypatch):
    """Image formats come from users: another normalisation, or one size after the other, must not make graphs."""
    engine = updates.engine(SIZE)
    good = Update.from_bytes(files["lda"])
    with pytest.raises(UpdateFileError, match="normalises its images in another way"):
        engine.check(replace(good, pixels=replace(good.pixels, mean=(0.4, 0.5, 0.5))).to_bytes())
    monkeypatch.setattr("filmtransfer.serve.engine.graph_features.MAX_GRAPHS", len(engine.source._sessions))
    with pytest.raises(UpdateFileError, match="too many different image sizes"):
        engine.check(replace(good, pixels=replace(good.pixels, size=48)).to_bytes())


def test_heads_that_cannot_predict_are_an_error_of_the_file(files, monkeypatch):
    engine = updates.engine(SIZE)
    good = Update.from_bytes(files["qda"])
    with pytest.raises(UpdateFileError, match="covariance weights"):
        engine.check(replace(good, head_weights=good.head_weights[None]).to_bytes())
    listed = replace(Update.from_bytes(files["lda"]), head_options={"start": [1.0, 1.0]})
    assert engine.member(listed.to_bytes()).predictor.head.weights is not None

    def singular(*_: object) -> None:
        raise SingularError

    monkeypatch.setattr(QDA, "build_rows", singular)
    with pytest.raises(UpdateFileError, match="finite"):
        engine.check(good.to_bytes())
    member = engine.member(files["lda"])
    monkeypatch.setattr(type(member.predictor.head), "evaluate", singular)
    with pytest.raises(InputError, match="singular"):
        engine.answers([member], engine.pixels(photo(0, 1))[None])
