"""Editing equals rebuilding, leaves no trace of what was forgotten, and refuses what cannot be."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
import torch

from filmtransfer import FewShotClassifier, InputError, Update, UsageError
from filmtransfer.backbones import load_backbone
from filmtransfer.heads import HEADS, make_head
from filmtransfer.model import log_prior
from filmtransfer.model.support import digest_of
from filmtransfer.training.assess.assessment import assess
from filmtransfer.training.edit import _without_name
from tests.conftest import picture

NAMES = ("disc", "bars", "plain")
SHOTS = 5
IMAGES = [picture(c, 100 * c + i) for c in range(3) for i in range(SHOTS)]
LABELS = [name for name in NAMES for _ in range(SHOTS)]
NEW = [picture(c, 5000 + 10 * c + i) for c in range(3) for i in range(3)]
MORE = [picture(1, 7000 + i) for i in range(3)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """One trained file for each head, and one without statistics."""
    place = tmp_path_factory.mktemp("files")
    for head in HEADS:
        clf = FewShotClassifier(
            head=head,
            steps=0 if head == "linear" else 2,
            train="none" if head == "linear" else None,
            image_size=48,
            train_size=48,
        )
        clf.fit(IMAGES, LABELS).save(place / f"{head}.safetensors")
    clf = FewShotClassifier(steps=0, image_size=48).fit(IMAGES, LABELS)
    clf.save(place / "bare.safetensors", compact=True)
    return place


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet_lite0")


@pytest.fixture(params=HEADS)
def clf(request, files, backbone):
    return FewShotClassifier.load(files / f"{request.param}.safetensors", backbone=backbone)


def rebuilt(clf: FewShotClassifier, images, labels) -> np.ndarray:
    """The oracle: under the same ψ, a head of the same weights built from the images themselves."""
    from filmtransfer.data import read_squares

    squares, _ = read_squares(images, clf.model_.pixels, ["?"] * len(images))
    order = {name: i for i, name in enumerate(clf.update_.classes)}
    head = make_head(clf.update_.head, **clf.update_.head_options)
    head.set_log_weights(clf.update_.head_weights)
    head.configure(
        clf.model_.features(torch.from_numpy(np.stack(squares))),
        torch.tensor([order[label] for label in labels]),
    )
    tried, _ = read_squares(NEW, clf.model_.pixels, ["?"] * len(NEW))
    with torch.no_grad():
        logits = head.logits(clf.model_.features(torch.from_numpy(np.stack(tried)))).double()
    return torch.softmax(logits / clf.update_.temperature, 1).numpy()


def agrees(clf, images, labels, tmp_path, backbone) -> None:
    np.testing.assert_allclose(clf.predict_proba(NEW), rebuilt(clf, images, labels), atol=1e-5)
    clf.save(tmp_path / "edited.safetensors")
    again = FewShotClassifier.load(tmp_path / "edited.safetensors", backbone=backbone)
    np.testing.assert_allclose(again.predict_proba(NEW), clf.predict_proba(NEW), atol=1e-6)
    assert again.update_.edits == clf.update_.edits


@pytest.mark.slow
def test_adding_photos_and_a_class(clf, tmp_path, backbone):
    clf.add(MORE, "bars")
    assert clf.counts_.tolist() == [5 + 3 * (name == "bars") for name in clf.update_.classes]
    agrees(clf, IMAGES + MORE, LABELS + ["bars"] * 3, tmp_path, backbone)
    clf.add(NEW[:2], "new")
    assert clf.update_.classes[-1] == "new"
    agrees(clf, IMAGES + MORE + NEW[:2], LABELS + ["bars"] * 3 + ["new"] * 2, tmp_path, backbone)
    assert [edit["what"] for edit in clf.update_.edits] == ["add", "add"]
    assert bool(clf.update_.support.held_out[-5:].all()), "fine-tuning has not seen them"


@pytest.mark.slow
def test_removing_and_merging_and_renaming(clf, tmp_path, backbone):
    merged = ["round" if label == "disc" else label for label in LABELS]
    clf.rename_class("disc", "round")
    agrees(clf, IMAGES, merged, tmp_path, backbone)
    clf.add(NEW[:3], "new")
    clf.merge_classes(["bars", "plain"], "flat")
    labels = ["flat" if label in ("bars", "plain") else label for label in merged] + ["new"] * 3
    agrees(clf, IMAGES + NEW[:3], labels, tmp_path, backbone)
    clf.remove_class("new")
    agrees(clf, IMAGES, labels[:-3], tmp_path, backbone)
    assert sorted(clf.update_.classes) == ["flat", "round"]
    assert "new" not in json.dumps(clf.update_.edits), "its name goes with it"


def test_a_removed_class_loses_all_the_names_it_had():
    edits = [
        {"what": "rename", "class": "flat", "to": "other"},  # another class that had the name once
        {"what": "add", "class": "add", "photos": 3},
        {"what": "rename", "class": "add", "to": "3"},
        {"what": "merge", "classes": ["3", "bars"], "into": "flat"},
        {"what": "forget", "classes": ["disc", "flat"], "photos": 3},
    ]
    lines = _without_name(edits, "flat")
    assert lines == [
        {"what": "rename", "class": "flat", "to": "other"},
        {"what": "add", "class": "(removed)", "photos": 3},
        {"what": "rename", "class": "(removed)", "to": "(removed)"},
        {"what": "merge", "classes": ["(removed)", "(removed)"], "into": "(removed)"},
        {"what": "forget", "classes": ["disc", "(removed)"], "photos": 3},
    ]
    assert _without_name([{"what": "add", "class": 3, "photos": 3}], 3) == [
        {"what": "add", "class": "(removed)", "photos": 3}
    ]


def test_forgetting_leaves_no_trace(clf, tmp_path, backbone):
    gone = 7
    secret = digest_of(IMAGES[gone])
    row = clf.update_.support.features[gone]
    name = clf.update_.support.names[gone]
    clf.forget([IMAGES[gone]])
    kept = [i for i in range(len(IMAGES)) if i != gone]
    agrees(clf, [IMAGES[i] for i in kept], [LABELS[i] for i in kept], tmp_path, backbone)
    content = (tmp_path / "edited.safetensors").read_bytes()
    assert secret.encode() not in content
    assert row.tobytes() not in content
    assert row.tobytes()[:64] not in content
    assert json.dumps(name).encode() not in content
    assert clf.update_.ood is not None
    # The bytes are those of a file from which it was always missing, but for the date of the edit.
    other = FewShotClassifier.load(tmp_path / "edited.safetensors", backbone=backbone)
    assert other.update_.support.names == clf.update_.support.names


def test_forgetting_a_photo_that_was_added_gives_the_file_back(clf):
    before = clf.update_
    clf.add(MORE[:1], "plain").forget(MORE[:1])
    after = clf.update_
    head = make_head(before.head, **before.head_options)
    head.set_log_weights(before.head_weights)
    expected = head.configure(before.support.features, before.support.labels).tensors()
    for name, tensor in before.head_tensors.items():
        largest = float(np.abs(tensor).max())
        np.testing.assert_allclose(after.head_tensors[name], expected[name], rtol=0, atol=1e-6 * largest)
        # Training computed it with tensors, in float32, in which these few images are nearly degenerate.
        np.testing.assert_allclose(after.head_tensors[name], tensor, rtol=0, atol=3e-4 * largest)
    stored = assess(
        head, before.support.features, before.support.labels, before.support.held_out,
        log_prior(before.prior, before.counts), seed=before.seed,
    )  # fmt: skip
    np.testing.assert_array_equal(after.ood.known, stored.ood.known)
    # Training computed it from features that had not been rounded for the file yet.
    np.testing.assert_allclose(after.ood.known, before.ood.known, rtol=1e-4)
    assert after.temperature == pytest.approx(stored.temperature)
    assert after.temperature == pytest.approx(before.temperature, rel=1e-3)


def test_the_estimate_follows_the_edits(clf):
    before = clf.update_.results["estimate"]["images"]
    clf.add(MORE, "bars")
    assert clf.update_.results["estimate"]["images"] == before + 3
    assert clf.assessment_.estimate.images == before + 3


def test_priors_follow_the_classes():
    clf = FewShotClassifier(steps=0, image_size=48, prior=[0.5, 0.25, 0.25])
    clf.fit(IMAGES, LABELS)
    clf.merge_classes(["bars", "disc"], "both")
    assert clf.update_.settings["prior"] == [0.75, 0.25]
    clf.add(NEW[:2], "new")
    assert clf.update_.settings["prior"] == [0.75, 0.25, 0.5]
    clf.remove_class("both")
    assert clf.update_.settings["prior"] == [0.25, 0.5]
    clf.predict(NEW)


def wrong(clf, error, words, act):
    before = clf.update_.to_bytes()
    with pytest.raises(error, match=words):
        act(clf)
    assert clf.update_.to_bytes() == before, "nothing changed"


@pytest.mark.parametrize("label", [None, ["disc"], float("nan"), 3, np.array([0, 1])])
def test_a_class_cannot_get_a_label_of_another_type(files, backbone, label):
    """Such a class would make a file that cannot be read again."""
    clf = FewShotClassifier.load(files / "lda.safetensors", backbone=backbone)
    for act in (
        lambda c: c.add(MORE, label),
        lambda c: c.rename_class("disc", label),
        lambda c: c.merge_classes(["bars", "disc"], label),
    ):
        wrong(clf, InputError, "A label is text or a number|classes of this classifier are text", act)
    wrong(clf, UsageError, "given as a list", lambda c: c.merge_classes("bars", "x"))


def test_impossible_edits_are_errors_and_change_nothing(files, backbone):
    clf = FewShotClassifier.load(files / "lda.safetensors", backbone=backbone)
    wrong(clf, InputError, "no class cat", lambda c: c.remove_class("cat"))
    wrong(clf, InputError, "no class cat", lambda c: c.rename_class("cat", "dog"))
    wrong(clf, InputError, "already", lambda c: c.rename_class("bars", "disc"))
    wrong(clf, InputError, "No photo", lambda c: c.forget(["cat.jpg"]))
    wrong(clf, InputError, "No photo", lambda c: c.forget(MORE[:1]))
    wrong(clf, InputError, "in this classifier already", lambda c: c.add(IMAGES[:1], "disc"))
    wrong(clf, InputError, "disc would have no photo left", lambda c: c.forget(IMAGES[:5]))
    wrong(clf, UsageError, "at least two different", lambda c: c.merge_classes(["bars"], "x"))
    wrong(clf, InputError, "another class plain", lambda c: c.merge_classes(["bars", "disc"], "plain"))
    wrong(clf, InputError, "leave one", lambda c: c.merge_classes(list(NAMES), "all"))
    clf.remove_class("plain")
    wrong(clf, InputError, "at least two classes", lambda c: c.remove_class("bars"))


def test_a_file_without_statistics_explains_how_to_keep_them(files, backbone):
    clf = FewShotClassifier.load(files / "bare.safetensors", backbone=backbone)
    for act in (
        lambda c: c.add(MORE, "bars"),
        lambda c: c.forget(IMAGES[:1]),
        lambda c: c.remove_class("bars"),
        lambda c: c.merge_classes(["bars", "disc"], "x"),
        lambda c: c.explain(NEW),
    ):
        wrong(clf, InputError, "without --compact", act)
    assert clf.rename_class("bars", "stripes").classes_.tolist() == ["stripes", "disc", "plain"]


def test_ood_images_are_rejected_and_others_are_not(files, backbone):
    clf = FewShotClassifier.load(files / "lda.safetensors", backbone=backbone)
    noise = [np.random.default_rng(i).integers(0, 255, (48, 48, 3), dtype=np.uint8) for i in range(5)]
    said = clf.predict([*NEW, *noise], reject=True, false_alarm=0.01)
    assert [s for s in said[:9] if s is not None] != []
    assert said[9:].tolist() == [None] * 5
    assert None not in clf.predict([*NEW, *noise]).tolist()
    assert (clf.predict(NEW, reject=True, false_alarm=0.4) == None).sum() >= (  # noqa: E711
        clf.predict(NEW, reject=True, false_alarm=0.01) == None  # noqa: E711
    ).sum()


def test_without_a_second_photo_nothing_can_be_rejected():
    with pytest.warns(match="one image"):
        clf = FewShotClassifier(steps=0, image_size=48).fit(IMAGES[::5], NAMES)
    assert clf.update_.ood is None
    assert "estimate" not in clf.update_.results
    with pytest.raises(InputError, match="leave-one-out scores"):
        clf.predict(NEW, reject=True)


def test_the_nearest_photo_of_a_support_image_is_itself(files, backbone):
    clf = FewShotClassifier.load(files / "lda.safetensors", backbone=backbone)
    (why,) = clf.explain(IMAGES[3:4])
    assert why.nearest[0][0] == "image 3"
    assert why.nearest[0][1] == "disc"
    assert next(iter(why.distances)) == "disc"
    assert list(why.distances.values()) == sorted(why.distances.values())


def altered(file, change) -> bytes:
    from safetensors.torch import load as parse
    from safetensors.torch import save as serialise

    content = file.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    meta = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["filmtransfer"])
    tensors = parse(content)
    change(tensors, meta)
    return serialise(tensors, {"filmtransfer": json.dumps(meta)})


@pytest.mark.parametrize(
    "change",
    [
        lambda t, m: m.update(temperature=0),
        lambda t, m: m.update(temperature="hot"),
        lambda t, m: m.update(edits="none"),
        lambda t, m: m["support"]["names"].pop(),
        lambda t, m: t.pop("ood/known"),
        lambda t, m: t.update({"ood/directions": t["ood/directions"][:1]}),
        lambda t, m: t.update({"support/unseen": t["support/unseen"][:1]}),
    ],
)
def test_damaged_files_are_refused(change, files, backbone):
    from filmtransfer import UpdateFileError

    with pytest.raises(UpdateFileError):
        Update.from_bytes(altered(files / "lda.safetensors", change)).apply(backbone)
