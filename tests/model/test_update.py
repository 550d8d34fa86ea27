"""The update file: small, exact, refused when wrong, never half written."""

from __future__ import annotations

import json
import os
import struct
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load as parse
from safetensors.torch import save as serialise

from filmtransfer import FewShotClassifier, Update
from filmtransfer.arrays import is_tensor, like, to_numpy
from filmtransfer.backbones import load_backbone
from filmtransfer.errors import InputError, UpdateFileError
from filmtransfer.files import check_writable, write_atomically
from filmtransfer.heads import HEADS, make_head
from tests.conftest import picture

IMAGES = [np.asarray(picture(i % 3, i)) for i in range(12)]
LABELS = [("disc", "bars", "plain")[i % 3] for i in range(12)]
SMALL = {"image_size": 64, "train_size": 64}


@pytest.fixture(scope="module", params=HEADS)
def fitted(request) -> FewShotClassifier:
    return FewShotClassifier(head=request.param, steps=2, **SMALL).fit(IMAGES, LABELS)


@pytest.fixture(scope="module")
def lda() -> FewShotClassifier:
    return FewShotClassifier(steps=2, **SMALL).fit(IMAGES, LABELS)


def test_saved_and_loaded_predict_the_same_bit_for_bit(fitted, tmp_path):
    file = tmp_path / "x.safetensors"
    written = fitted.save(file)
    assert file.stat().st_size == written
    again = FewShotClassifier.load(file)
    assert again.classes_.tolist() == ["bars", "disc", "plain"]
    np.testing.assert_array_equal(again.predict_proba(IMAGES), fitted.predict_proba(IMAGES))


def test_ten_lda_classes_on_lite0_stay_below_150_kb(tmp_path):
    images = [np.asarray(picture(i, i)) for i in range(10)]
    clf = FewShotClassifier(steps=0, **SMALL)
    with pytest.warns(UserWarning, match="one image"):
        clf.fit(images, list(range(10)))
    assert clf.save(tmp_path / "x.safetensors", compact=True) < 150_000
    assert clf.update_.compact().stored_parameters() == clf.update_.stored_parameters()
    assert clf.update_.stored_parameters() == 19_936 + 10 * 1281 + 2


def test_the_file_says_what_it_is(lda, tmp_path):
    file = tmp_path / "x.safetensors"
    lda.save(file)
    update = Update.load(file)
    assert update.counts == [4, 4, 4]
    assert update.backbone == "efficientnet_lite0"
    assert len(update.backbone_digest) == 64
    assert update.settings["steps"] == 2
    assert update.results["steps"] == 2
    assert set(update.versions) >= {"filmtransfer", "torch", "timm"}
    assert update.pixels.size == 64
    assert str(tmp_path) not in file.read_bytes()[:20_000].decode("latin-1"), "no path is written"


def test_a_head_is_rebuilt_from_the_kept_features(lda):
    features, labels = lda.update_.support.features, lda.update_.support.labels
    with torch.no_grad():
        weight, bias = lda.model_.head.build(torch.from_numpy(features), torch.from_numpy(labels))
    np.testing.assert_array_equal(weight, lda.update_.head_tensors["weight"])
    np.testing.assert_array_equal(bias, lda.update_.head_tensors["bias"])


@pytest.mark.parametrize("kind", [np.empty(0, np.float32), torch.empty(0), torch.empty(0).double()])
def test_a_head_is_restored_as_arrays_or_as_tensors(kind, fitted):
    head = fitted.update_.restore_head(kind)
    arrays = (*head.configured(), head.counts, head.classes)
    assert all(is_tensor(array) == is_tensor(kind) for array in arrays)
    features = np.random.default_rng(0).normal(0, 1, (5, 1280)).astype(np.float32)
    expected = fitted.update_.restore_head().logits(features)
    with torch.no_grad():
        logits = to_numpy(head.logits(like(features, kind)))
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5 * np.ptp(expected))


def altered(lda, change) -> bytes:
    content = lda.update_.to_bytes()
    tensors = parse(content)
    (length,) = struct.unpack("<Q", content[:8])
    meta = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["filmtransfer"])
    change(tensors, meta)
    return serialise(tensors, {"filmtransfer": json.dumps(meta)})


def drop(name):
    return lambda tensors, meta: (tensors.pop(name, None), meta.pop(name, None))


WRONG = {
    "nan": (lambda t, m: t["head/weight"].fill_(float("nan")), "not finite"),
    "infinite film": (lambda t, m: t["film/bn2.gamma"].fill_(float("inf")), "not finite"),
    "wrong head shape": (lambda t, m: t.update({"head/weight": torch.zeros(3, 7)}), "shapes"),
    "missing head": (drop("head/bias"), "shapes"),
    "missing film": (drop("film/bn2.gamma"), "another backbone"),
    "film shape": (lambda t, m: t.update({"film/bn2.gamma": torch.ones(5)}), "shape"),
    "wrong backbone": (lambda t, m: m["backbone"].update(sha256="0" * 64), "made with"),
    "other format": (lambda t, m: m.update(format=99), "format 99"),
    "unknown head": (lambda t, m: m.update(head="svm"), "svm"),
    "missing metadata": (drop("counts"), "lack counts"),
    "classes and counts": (lambda t, m: m.update(counts=[1]), "do not fit"),
    "image size": (lambda t, m: m["pixels"].update(size=0), "image size"),
    "odd pixels": (lambda t, m: m["pixels"].update(surprise=1), "wrong type"),
    "no covariance weights": (drop("covariance_weights/log"), "covariance weights"),
    "huge covariance weights": (lambda t, m: t["covariance_weights/log"].fill_(1000), "covariance weights"),
    "wrong kind": (lambda t, m: t.update({"head/weight": t["head/weight"].double()}), "type"),
    "negative counts": (lambda t, m: m.update(counts=[-1, 4, 4]), "counts"),
    "counts as text": (lambda t, m: m.update(counts=["4", "4", "4"]), "counts"),
    "twice the same class": (lambda t, m: m.update(classes=["a", "a", "b"]), "different"),
    "classes as text": (lambda t, m: m.update(classes="abc"), "do not fit"),
    "nested classes": (lambda t, m: m.update(classes=[["a"], "b", "c"]), "different|wrong type"),
    "settings as text": (lambda t, m: m.update(settings="none"), "settings"),
    "two means": (lambda t, m: m["pixels"].update(mean=[0.5, 0.5]), "mean"),
    "no deviation": (lambda t, m: m["pixels"].update(std=[0.0, 0.5, 0.5]), "deviation"),
    "interpolation": (lambda t, m: m["pixels"].update(interpolation="magic"), "scaled"),
    "fractional size": (lambda t, m: m["pixels"].update(size=64.0), "image size"),
    "prior": (lambda t, m: m["settings"].update(prior=[1.0]), "prior"),
    "head options": (lambda t, m: m.update(head_options={"exec": "rm"}), "options"),
    "support labels": (lambda t, m: t["support/labels"].fill_(10**10), "labels"),
    "support shape": (lambda t, m: t.update({"support/features": torch.zeros(1, 2)}), "support"),
    "covariance weights": (
        lambda t, m: t.update({"covariance_weights/log": torch.zeros(5)}),
        "covariance weights",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_file_is_refused_with_a_reason(case, lda, tmp_path):
    change, reason = WRONG[case]
    file = tmp_path / "wrong.safetensors"
    file.write_bytes(altered(lda, change))
    with pytest.raises(UpdateFileError, match=reason) as error:
        FewShotClassifier.load(file, backbone=load_backbone("efficientnet_lite0"))
    assert error.value.exit_code == 4


@pytest.mark.parametrize("keep", [0, 5, 100, 5000, -1])
def test_a_truncated_file_is_refused(keep, lda, tmp_path):
    file = tmp_path / "cut.safetensors"
    file.write_bytes(lda.update_.to_bytes()[:keep])
    with pytest.raises(UpdateFileError, match="not a complete update file"):
        Update.load(file)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(UpdateFileError, match="cannot be read"):
        Update.load(tmp_path / "none.safetensors")
    with pytest.raises(UpdateFileError, match="not an update"):
        Update.from_bytes(serialise({"x": torch.zeros(1)}))
    with pytest.raises(UpdateFileError, match="not an update file"):
        Update.from_bytes(b"hello, this is no safetensors file at all")


def test_qda_labels_out_of_range_are_refused(tmp_path):
    clf = FewShotClassifier(head="qda", steps=0, **SMALL).fit(IMAGES, LABELS)
    for wrong in (-1, 10**10):
        file = tmp_path / "q.safetensors"
        file.write_bytes(altered(clf, lambda t, m, w=wrong: t["head/labels"].fill_(w)))
        with pytest.raises(UpdateFileError, match="labels"):
            FewShotClassifier.load(file)


def test_a_head_with_options_comes_back_with_them(tmp_path):
    from filmtransfer.heads import QDA
    from filmtransfer.model import AdaptedModel

    backbone = load_backbone("efficientnet_lite0")
    model = AdaptedModel(backbone, QDA(divisor="n"), 48)
    pixels = torch.randint(
        0, 256, (8, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    model.configure(pixels, torch.arange(2).repeat(4))
    kinds = {"settings": {}, "results": {}, "seed": 0, "versions": {}}
    Update.of(model, ["a", "b"], **kinds).save(tmp_path / "n.safetensors")
    again = Update.load(tmp_path / "n.safetensors").apply(backbone)
    assert torch.equal(again.logits(pixels), model.logits(pixels))


def test_non_finite_parameters_never_replace_a_valid_file(lda, tmp_path):
    import copy

    file = tmp_path / "x.safetensors"
    lda.save(file)
    good = file.read_bytes()
    bad = copy.deepcopy(lda.update_)
    bad.film["bn2.gamma"].fill(float("nan"))
    with pytest.raises(InputError, match="nothing was written"):
        bad.save(file)
    assert file.read_bytes() == good


def test_names_of_any_bytes_are_kept(tmp_path):
    labels = [os.fsdecode(name) for name in (b"caf\xe9", "日本".encode(), b"plain")]
    clf = FewShotClassifier(steps=0, **SMALL).fit(IMAGES[:6], labels * 2)
    clf.save(tmp_path / "x.safetensors")
    assert set(FewShotClassifier.load(tmp_path / "x.safetensors").classes_) == set(labels)


def test_labels_that_json_cannot_store_are_an_error(lda):
    import dataclasses

    strange = dataclasses.replace(lda.update_, classes=[1 + 2j, 2, 3])
    with pytest.raises(InputError, match="cannot be saved"):
        strange.to_bytes()


def test_files_are_written_completely_or_not_at_all(tmp_path, monkeypatch):
    file = tmp_path / "x.bin"
    write_atomically(file, b"first")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match="No space left"):
        write_atomically(file, b"second")
    assert file.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [file], "no temporary file is left behind"


@pytest.mark.skipif(sys.platform == "win32", reason="modes of files")
@pytest.mark.parametrize(("private", "mode"), [(False, 0o640), (True, 0o600)])
def test_the_mode_of_a_file_follows_the_umask(tmp_path, private, mode):
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "x", b"", private=private)
        assert os.umask(0o027) == 0o027, "other threads write files too"
    finally:
        os.umask(before)
    assert (tmp_path / "x").stat().st_mode & 0o777 == mode


def test_unwritable_paths_are_detected_early(tmp_path):
    with pytest.raises(InputError, match="is a folder"):
        check_writable(tmp_path)
    with pytest.raises(InputError, match="no folder"):
        check_writable(tmp_path / "a" / "b")
    check_writable(tmp_path / "fine.bin")
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_folder_is_detected_early(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(InputError, match="cannot be written"):
        check_writable(tmp_path / "x")


@pytest.mark.parametrize(
    ("head", "rows", "counts", "fits"),
    [
        ("qda", 1280, [1] * 1279 + [1], True),
        ("qda", 800, [1] * 600 + [200], True),
        ("mahalanobis", 400, [10] * 40, True),
        ("mahalanobis", 1280, [1] * 1280, False),
        ("qda", 40_000, [20_000] * 2, False),
    ],
)
def test_the_cost_of_a_head_is_charged_from_its_shapes(lda, head, rows, counts, fits):
    empty = np.empty(0, np.float32)
    shapes = {"mean": (1280,), "rows": (rows, 1280), "labels": (rows,)}
    tensors = {
        name: np.lib.stride_tricks.as_strided(empty, shape, [0] * len(shape))
        for name, shape in shapes.items()
    }
    update = replace(
        lda.update_, head=head, head_tensors=tensors, counts=counts, classes=list(range(len(counts)))
    )
    if fits:
        update.check_cost()
    else:
        with pytest.raises(UpdateFileError, match="too large: it takes"):
            update.restore_head()


def test_labels_and_edits_are_limited(lda):
    for change, reason in (
        ({"classes": ["x" * 501, "b", "c"]}, "more than 500 characters"),
        ({"edits": [{"what": "strip"}] * 10_001}, "more than 10,000 times"),
        ({"edits": [{"at": "now"}]}, "not a list of edits"),
        ({"classes": [str(i) for i in range(50_001)], "counts": [1] * 50_001}, "50,001 classes"),
    ):
        with pytest.raises(UpdateFileError, match=reason):
            Update.from_bytes(replace(lda.update_, **change).to_bytes())


@pytest.mark.parametrize("head", ["qda", "mahalanobis"])
def test_the_shapes_of_a_head_are_compared_before_its_cost_is_estimated(lda, head):
    """The cost of a head, and edits of it, rely on the names and shapes of its arrays."""
    made = make_head(head)
    support = lda.update_.support
    made.configure(support.features, support.labels)
    weights = made.log_weights()
    tensors = {name: to_numpy(tensor) for name, tensor in made.tensors().items()}
    valid = replace(
        lda.update_, head=head, head_options={}, head_tensors=tensors, head_weights=weights, ood=None
    )
    Update.from_bytes(valid.to_bytes()).check_cost()
    rows = tensors["rows"]
    for changed in (
        {"m" if name == "mean" else name: tensor for name, tensor in tensors.items()},
        tensors | {"rows": rows.reshape(-1)},
        tensors | {"rows": rows[..., None]},
        tensors | {"rows": rows[:0]},
        {},
    ):
        with pytest.raises(UpdateFileError, match="do not fit its classes"):
            Update.from_bytes(replace(valid, head_tensors=changed).to_bytes())


def test_class_names_differ_as_text(lda):
    with pytest.raises(UpdateFileError, match="have to be different"):
        Update.from_bytes(replace(lda.update_, classes=[1, "1", "2"]).to_bytes())


def test_film_parameters_are_pairs(lda):
    film = {name: values for name, values in lda.update_.film.items() if name != "bn2.beta"}
    with pytest.raises(UpdateFileError, match="missing or have another shape"):
        Update.from_bytes(replace(lda.update_, parameters=film).to_bytes())
