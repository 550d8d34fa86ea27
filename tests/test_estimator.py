"""The Python front door."""

from __future__ import annotations

import inspect
import os
import signal

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator
from torch.utils.data import Dataset

import filmtransfer
from filmtransfer import FeatureClassifier, FewShotClassifier, film
from filmtransfer.backbones import digest, load_backbone
from filmtransfer.data import LabelledImages
from filmtransfer.errors import FitWarning, InputError, UsageError
from filmtransfer.training import config
from filmtransfer.training.callbacks import Callbacks
from tests.conftest import picture

IMAGES = [np.asarray(picture(i % 3, i)) for i in range(15)]
LABELS = [("disc", "bars", "plain")[i % 3] for i in range(15)]
NEW = [np.asarray(picture(i % 3, 500 + i)) for i in range(9)]
SMALL = {"image_size": 64, "train_size": 48}


def quick(**options) -> FewShotClassifier:
    return FewShotClassifier(**({"steps": 2} | SMALL | options))


def test_public_names():
    assert set(filmtransfer.__all__) == {
        "Callbacks", "FeatureClassifier", "FewShotClassifier", "FitError", "FitWarning", "InputError",
        "Predictor", "Progress", "UnavailableError", "Update", "UpdateFileError", "UsageError", "__version__",
    }  # fmt: skip
    assert all(hasattr(filmtransfer, name) for name in filmtransfer.__all__)


def test_it_learns_to_tell_shapes_apart():
    clf = quick().fit(IMAGES, LABELS)
    assert clf.classes_.tolist() == ["bars", "disc", "plain"]
    assert clf.score(NEW, LABELS[:9]) == 1.0
    chances = clf.predict_proba(NEW)
    assert chances.shape == (9, 3)
    np.testing.assert_allclose(chances.sum(1), 1)
    assert clf.predict(NEW).tolist() == [clf.classes_[i] for i in chances.argmax(1)]


def test_labels_that_it_does_not_know_are_no_accuracy_of_zero():
    clf = quick(steps=0).fit(IMAGES, LABELS)
    for labels in (["cup"] * 9, [0] * 9):
        with pytest.raises(InputError, match="does not know the class") as error:
            clf.score(NEW, labels)
        assert "It knows: bars, disc, plain" in error.value.hint
    with pytest.raises(InputError, match="does not know the class cup"):
        clf.score([(image, "cup") for image in NEW])


def test_an_interrupt_of_fine_tuning_is_a_warning():
    """The program goes on with what was trained so far: it has to learn that."""

    def interrupt(progress) -> None:
        if progress.step == 2:
            raise KeyboardInterrupt

    with pytest.warns(
        FitWarning, match="Fine-tuned one step .interrupted; what was trained so far is kept"
    ) as caught:
        quick(steps=5).fit(IMAGES, LABELS, callbacks=Callbacks(on_step=interrupt))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize(
    ("options", "callbacks", "says"),
    [
        ({"seed": "a"}, Callbacks(), "seed cannot be 'a'"),
        ({"verbose": "yes"}, Callbacks(), "verbose cannot be 'yes'"),
        ({}, print, "callbacks cannot be"),
    ],
)
def test_what_is_no_setting_is_refused(options, callbacks, says):
    with pytest.raises(UsageError, match=says):
        quick(**options).fit(IMAGES, LABELS, callbacks=callbacks)


def test_before_fit_there_is_no_estimate():
    with pytest.raises(NotFittedError):
        quick().estimate_  # noqa: B018


def test_paths_images_and_arrays_are_the_same_to_it(photo_folder):
    root = photo_folder()
    by_folder = quick(steps=0).fit_folder(root)
    files = sorted(root.rglob("*.png"))
    by_path = quick(steps=0).fit(files, [f.parent.name for f in files])
    np.testing.assert_array_equal(by_folder.predict_proba(NEW), by_path.predict_proba(NEW))


TENSORS = [torch.from_numpy(image.transpose(2, 0, 1) / np.float32(255)) for image in IMAGES]


class Photos(Dataset):
    """A data set of pairs that are made when they are read."""

    def __init__(self, side: int = 40, first: int = 0) -> None:
        self.side, self.first = side, first

    def __len__(self) -> int:
        return 15

    def __getitem__(self, index: int):
        return picture(index % 3, self.first + index, self.side), LABELS[index % 15]


@pytest.mark.parametrize(
    "data",
    [
        (np.stack(IMAGES), np.array(LABELS)),
        (torch.stack(TENSORS), LABELS),
        (Photos(),),
        ([{"image": image, "label": label} for image, label in zip(IMAGES, LABELS, strict=True)],),
        (zip(TENSORS, LABELS, strict=True),),
    ],
    ids=["batch", "tensors", "data set", "rows", "generator"],
)
def test_it_trains_on_images_in_every_form(data):
    clf = quick(steps=0, keep_statistics=True).fit(*data)
    expected = quick(steps=0, keep_statistics=True).fit(IMAGES, LABELS)
    assert clf.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_array_equal(clf.predict_proba(NEW), expected.predict_proba(NEW))
    assert clf.update_.support.digests == expected.update_.support.digests, "the same photos to forget"


def test_it_predicts_images_in_every_form():
    clf = quick(steps=0, keep_statistics=True).fit(IMAGES, LABELS)
    expected = clf.predict_proba(IMAGES)
    for images in (np.stack(IMAGES), torch.stack(TENSORS), (t for t in TENSORS), Photos()):
        np.testing.assert_array_equal(clf.predict_proba(images), expected)
    test = Photos(first=500)
    assert clf.score(test) == clf.score([test[i][0] for i in range(15)], LABELS) == 1.0
    assert clf.score((test[i][0] for i in range(15)), LABELS) == 1.0
    assert len(clf.explain(torch.stack(TENSORS))) == 15
    with pytest.raises(InputError, match="15 images but 14 labels"):
        clf.score((test[i][0] for i in range(15)), LABELS[:14])


def test_photos_are_added_and_forgotten_in_every_form():
    clf = quick(steps=0, keep_statistics=True).fit(IMAGES, LABELS)
    clf.add(torch.stack([torch.flip(t, (2,)) for t in TENSORS[:3]]), "turned")
    assert clf.counts_.tolist() == [5, 5, 5, 3]
    clf.forget([TENSORS[0], IMAGES[1]])
    assert clf.counts_.tolist() == [4, 4, 5, 3]
    with pytest.raises(InputError, match="as a list"):
        clf.forget("image 3")
    with pytest.raises(InputError, match=r"There is no file nope\.jpg"):
        clf.add(["nope.jpg"], "turned")


def test_a_photo_of_a_data_set_is_forgotten_by_its_content():
    large = Photos(side=400)
    clf = quick(steps=0, keep_statistics=True).fit(large)
    assert clf.forget([large[4][0]]).counts_.sum() == 14


def test_a_mistyped_path_is_an_error_before_the_backbone_is_loaded(tmp_path):
    phases: list[str] = []
    with pytest.raises(InputError, match=r"There is no file nope\.jpg"):
        quick().fit([*IMAGES, "nope.jpg"], [*LABELS, "disc"], callbacks=Callbacks(on_phase=phases.append))
    assert not phases
    picture(0, 0).save(tmp_path / "fine.png")
    clf = quick(steps=0).fit(IMAGES, LABELS)
    with pytest.raises(InputError, match=r"There is no file nope\.jpg"):
        clf.predict([tmp_path / "fine.png", "nope.jpg"])


def test_a_data_set_is_a_phase_of_its_own():
    phases: list[str] = []
    quick(steps=0).fit(Photos(), callbacks=Callbacks(on_phase=phases.append))
    assert phases[:3] == ["reading the data set", "loading efficientnet_lite0", "reading 15 photos"]


@pytest.mark.parametrize(("option", "value"), [("head", "svm"), ("prior", "flat"), ("preset", "slow")])
def test_a_data_set_is_not_read_if_a_setting_is_wrong(option, value):
    pairs = iter(zip(IMAGES, LABELS, strict=True))
    with pytest.raises(UsageError):
        quick(**{option: value}).fit(pairs)
    assert len(list(pairs)) == 15


def test_scikit_learn_conventions():
    clf = quick(head="qda", seed=3)
    twin = clone(clf)
    assert twin.get_params() == clf.get_params()
    assert twin.set_params(seed=4).seed == 4
    chosen = clone(quick(weight_decay=0.1, rule="cosine", small_image_size=32))
    assert (chosen.weight_decay, chosen.training_config().small_image_size) == (0.1, 32)
    assert quick().fit(IMAGES, LABELS) is not None
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        quick().predict(NEW)


def test_the_signature_has_the_training_settings_and_the_named_others():
    parameters = inspect.signature(FewShotClassifier).parameters
    others = {
        "backbone", "head", "seed", "head_options", "preset", "prior", "weights", "strict", "keep_statistics",
        "device", "precision", "compile", "verbose",
    }  # fmt: skip
    assert parameters.keys() == others | {*config.names()}
    assert set(FewShotClassifier().get_params()) == parameters.keys()
    assert all(parameters[name].default == ("auto" if name == "steps" else None) for name in config.names())


@pytest.mark.parametrize("head", ["lda", "qda", "protonets", "linear", "cosine"])
def test_feature_classifiers_pass_scikit_learns_checks(head):
    check_estimator(FeatureClassifier(head), on_skip=None)


def test_log_probabilities_stay_finite_where_probabilities_are_zero():
    features, labels = np.array([[0.0], [1.0], [1000.0], [1001.0]]), [0, 0, 1, 1]
    clf = FeatureClassifier("protonets").fit(features, labels)
    logs = clf.predict_log_proba(features)
    assert clf.predict_proba(features).min() == 0
    assert np.isfinite(logs).all()
    assert logs.min() < -1e5


def test_one_seed_one_update_bit_for_bit():
    first, second, other = (quick(seed=s).fit(IMAGES, LABELS).update_.to_bytes() for s in (5, 5, 6))
    assert first == second
    assert first != other


def test_training_leaves_the_backbone_alone_and_moves_film():
    clf = quick().fit(IMAGES, LABELS)
    fresh = load_backbone("efficientnet_lite0")
    used = film.layers(clf.model_.network)
    assert any(bool((layer.gamma != 1).any()) for layer in used.values())
    film.reset(clf.model_.network)
    bare = film.fold(clf.model_.network)
    assert digest(bare) == digest(fresh.module), "every byte of θ is as it was loaded"


@pytest.mark.slow
def test_two_classifiers_on_one_backbone_keep_their_own_parameters(tmp_path):
    backbone = load_backbone("efficientnet_lite0")
    files = [tmp_path / "a.safetensors", tmp_path / "b.safetensors"]
    for seed, file in enumerate(files):
        FewShotClassifier(steps=3, seed=seed, preset="paper", split="split", **SMALL).fit(
            IMAGES, LABELS
        ).save(file)
    alone = [FewShotClassifier.load(file).predict_proba(NEW) for file in files]
    together = [FewShotClassifier.load(file, backbone=backbone) for file in files]
    for want, clf in zip(alone, together, strict=True):
        np.testing.assert_array_equal(clf.predict_proba(NEW), want)
    assert not np.array_equal(alone[0], alone[1])
    tensors = {p.data_ptr() for p in together[0].model_.network.parameters()}
    shared = {p.data_ptr() for p in together[1].model_.network.parameters()}
    assert len(tensors & shared) > 50, "the weights themselves are in memory once"


def test_what_is_not_a_list_of_images_is_an_error():
    clf = quick(steps=0).fit(IMAGES, LABELS)
    with pytest.raises(InputError, match="as a list"):
        clf.predict("new.jpg")
    with pytest.raises(InputError, match="NaN"):
        quick(steps=0).fit(IMAGES[:2], [1.0, float("nan")])


def test_steps_zero_is_the_frozen_backbone():
    clf = quick(steps=0).fit(IMAGES, LABELS)
    assert clf.history_.steps == 0
    assert all(bool((v == name.endswith("gamma")).all()) for name, v in clf.update_.film.items())


def test_ctrl_c_keeps_what_was_learned():
    clf = FewShotClassifier(steps=100_000, **SMALL)
    seen = []

    def on_step(progress):
        seen.append(progress.step)
        if len(seen) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    clf.fit_images(LabelledImages.from_memory(IMAGES, LABELS), Callbacks(on_step=on_step))
    assert clf.history_.stopped == "interrupted"
    assert 0 < clf.history_.steps < 100_000
    assert clf.score(NEW, LABELS[:9]) > 0.5


@pytest.mark.slow
def test_the_time_limit_is_kept():
    clf = FewShotClassifier(steps=100_000, time_limit=2.0, **SMALL).fit(IMAGES, LABELS)
    assert clf.history_.stopped == "time limit"
    assert clf.history_.steps >= 1


def test_a_diverging_learning_rate_keeps_the_last_finite_parameters():
    clf = FewShotClassifier(steps=6, learning_rate=1e6, **SMALL).fit(IMAGES, LABELS)
    assert all(bool(np.isfinite(v).all()) for v in clf.update_.film.values())


def test_one_image_per_class_is_not_fine_tuned_and_says_so():
    with pytest.warns(FitWarning, match="no fine-tuning"):
        clf = quick(steps=5).fit(IMAGES[:3], LABELS[:3])
    assert clf.history_.stopped == "one-shot"
    assert clf.history_.steps == 0


def test_unequal_classes_are_mentioned_and_the_prior_is_used():
    images, labels = [*IMAGES, *IMAGES[:1]], ["a"] * 12 + ["b"] * 3 + ["a"]
    with pytest.warns(FitWarning, match="from 3 to 13 images"):
        even = quick(steps=0).fit(images, labels)
    odd = quick(steps=0, prior="empirical").fit(images, labels)
    odds = np.log(odd.predict_proba(NEW)[:, 0] / odd.predict_proba(NEW)[:, 1])
    base = np.log(even.predict_proba(NEW)[:, 0] / even.predict_proba(NEW)[:, 1])
    np.testing.assert_allclose(odds - base, np.log(13 / 3), atol=1e-3)
    given = quick(steps=0, prior=[13.0, 3.0]).fit(images, labels)
    np.testing.assert_allclose(given.predict_proba(NEW), odd.predict_proba(NEW))
    with pytest.raises(InputError, match="2 positive numbers"):
        quick(steps=0, prior=[1.0]).fit(images, labels)


def test_unreadable_images_are_skipped_or_refused(tmp_path):
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(b"no image")
    with pytest.warns(FitWarning, match="One image was skipped: "):
        clf = quick(steps=0).fit([*IMAGES, bad], [*LABELS, "disc"])
    assert len(clf.skipped_) == 1
    assert clf.counts_.sum() == 15
    with pytest.raises(InputError, match="not an image"):
        quick(steps=0, strict=True).fit([*IMAGES, bad], [*LABELS, "disc"])
    with pytest.raises(InputError, match="not an image"):
        clf.predict([bad])
    with pytest.raises(InputError, match="No images"):
        clf.predict([])


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("backbone", "nothing", "There is no backbone"),
        ("head", "svm", "The head cannot be 'svm'"),
        ("preset", "slow", "The preset"),
        ("steps", -1, "steps cannot be"),
        ("steps", "many", "steps cannot be"),
        ("learning_rate", 0.0, "learning_rate cannot be 0.0. It is a number above 0"),
        ("learning_rate", float("inf"), "learning_rate"),
        ("time_limit", -1.0, "time_limit"),
        ("image_size", 5000, "4096"),
        ("backbone", "resnet18.nothing", "Invalid pretrained tag"),
        ("split", "thirds", "split cannot be"),
        ("image_size", 8, "image_size"),
        ("micro_batch", 0, "micro_batch"),
        ("support_size", 1, "support_size"),
        ("film_from", -1, "film_from"),
        ("film_from", 9, "cannot begin at stage 9"),
        ("cache_mb", -1, "cache_mb"),
        ("cache_mb", 0.01, "too small for one image"),
        ("device", "toaster", "The device"),
        ("precision", "float8", "The precision"),
        ("prior", "flat", "The prior"),
    ],
)
def test_unknown_values_are_errors(option, value, says):
    with pytest.raises(UsageError, match=says) as error:
        quick(**{option: value}).fit(IMAGES, LABELS)
    assert error.value.exit_code == 2


def test_film_from_a_stage_saves_only_those_parameters(tmp_path):
    clf = quick(film_from=6).fit(IMAGES, LABELS)
    clf.save(tmp_path / "a.safetensors")
    sites = {name.rpartition(".")[0] for name in clf.update_.film}
    assert sites == {"blocks.5.0.bn2", "blocks.5.1.bn2", "blocks.5.2.bn2", "blocks.5.3.bn2", "blocks.6.0.bn2", "bn2"}  # fmt: skip
    again = FewShotClassifier.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(again.predict_proba(NEW), clf.predict_proba(NEW))
    small, whole = (
        (tmp_path / "a.safetensors").stat().st_size,
        len(quick().fit(IMAGES, LABELS).update_.to_bytes()),
    )
    assert small < whole - 4 * (19_936 - 13_120)
    clf.update_.settings["film_from"] = 5
    with pytest.raises(filmtransfer.UpdateFileError, match="another backbone"):
        clf.update_.apply(load_backbone("efficientnet_lite0"))
    for wrong in ("6", 99, None, -1):
        clf.update_.settings["film_from"] = wrong
        with pytest.raises(filmtransfer.UpdateFileError, match="cannot begin at stage"):
            clf.update_.apply(load_backbone("efficientnet_lite0"))


def test_an_image_whose_features_are_not_finite_is_named(monkeypatch, tmp_path):
    from filmtransfer.model import AdaptedModel

    files = []
    for i in range(len(IMAGES)):
        files.append(tmp_path / f"{i}.png")
        picture(i % 3, i).save(files[-1])
    poison: list[int] = []
    above, calls = AdaptedModel.above, 0

    def spoiled(self, activations):
        nonlocal calls
        calls += 1
        features = above(self, activations)
        return features * float("nan") if calls in poison else features

    monkeypatch.setattr(AdaptedModel, "above", spoiled)
    poison[:] = [3]  # the support images of the second step
    with pytest.warns(FitWarning, match=r"not finite, of .*/\d+\.png.*The last finite parameters are kept"):
        clf = quick(steps=4, split="use_all").fit(files, LABELS)
    assert clf.history_.stopped == "not finite"
    assert clf.history_.steps < 2
    assert all(bool(np.isfinite(v).all()) for v in clf.update_.film.values())
    poison[:] = range(1000)
    with pytest.raises(InputError, match=r"no finite features for .*/0\.png and 14 more"):
        quick(steps=0).fit(files, LABELS)


@pytest.mark.slow
def test_bit_through_the_estimator(tmp_path):
    """head="linear", train="all", preset="bit" is BiT: its rule, a copy of every weight, a file of their size."""
    clf = quick(head="linear", train="all", preset="bit", batch=8, steps=5).fit(IMAGES, LABELS)
    settings = clf.update_.settings
    assert (settings["rule"], settings["train"], settings["learning_rate"]) == ("hyperrule", "all", 0.003)
    assert clf.update_.head_tensors["weight"].any()
    assert sum(v.size for v in clf.update_.parameters.values()) == 3_371_008
    clf.save(tmp_path / "bit.safetensors")
    again = FewShotClassifier.load(tmp_path / "bit.safetensors")
    np.testing.assert_array_equal(again.predict_proba(NEW), clf.predict_proba(NEW))
    assert (again.train, again.head) == ("all", "linear")
    whole = FewShotClassifier(head="linear", train="all", preset="bit").training_config()
    assert (whole.batch, whole.steps, whole.rule) == (512, None, "hyperrule")


def test_full_fine_tuning_has_a_rate_of_its_own_and_starts_from_the_solved_head():
    from filmtransfer.training.presets import ALL_WEIGHTS

    for head in ("linear", "lda"):
        settings = FewShotClassifier(head=head, train="all").training_config()
        assert (settings.learning_rate, settings.rule) == (ALL_WEIGHTS, "cosine")
        assert (
            FewShotClassifier(head=head, train="all", learning_rate=0.5).training_config().learning_rate
            == 0.5
        )
    clf = quick(head="linear", train="all").fit(IMAGES, LABELS)
    assert clf.score(NEW, LABELS[:9]) == 1.0
    with pytest.raises(UsageError, match="linear head"):
        FewShotClassifier(preset="bit").fit(IMAGES, LABELS)


def test_bit_stopped_at_once_still_has_a_head():
    """The first step of the HyperRule has a rate of 0, so a head of zeros is all it has by then."""
    clf = quick(head="linear", preset="bit", steps=1, batch=8).fit(IMAGES, LABELS)
    assert clf.update_.head_tensors["weight"].any()
    assert clf.score(NEW, LABELS[:9]) == 1.0


def test_bit_film_is_the_hyperrule_with_film_parameters():
    clf = quick(head="linear", train="adapter", preset="bit", batch=8).fit(IMAGES, LABELS)
    assert clf.update_.settings["rule"] == "hyperrule"
    assert set(clf.update_.film) == set(clf.model_.backbone_parameters())
    assert sum(v.size for v in clf.update_.film.values()) == 20_544


def test_another_adapter_through_the_estimator(tmp_path):
    clf = quick(adapter="lora", adapter_options={"rank": 2}, steps=3).fit(IMAGES, LABELS)
    assert not clf.update_.film
    assert all("lora" in name for name in clf.update_.parameters)
    clf.save(tmp_path / "lora.safetensors")
    again = FewShotClassifier.load(tmp_path / "lora.safetensors")
    np.testing.assert_array_equal(again.predict_proba(NEW), clf.predict_proba(NEW))
    assert again.adapter_options == {"rank": 2, "scale": 1.0}


def test_nothing_of_the_backbone_is_learned():
    lda = quick(train="none", preset="paper", steps=3).fit(IMAGES, LABELS)
    assert lda.update_.parameters == {}
    assert lda.update_.results["steps"] == 3
    assert lda.update_.head_weights.any(), "the covariance weights e did move"
    for head in ("linear", "protonets"):
        assert quick(head=head, train="none").fit(IMAGES, LABELS).update_.results["steps"] == 0


def test_noah_searches_before_it_trains(tmp_path):
    from safetensors.torch import save_file

    from filmtransfer.backbones import build, record_for

    model = build(record_for("vit_tiny_patch16_224"))
    save_file(model.state_dict(), tmp_path / "vit.safetensors")
    clf = FewShotClassifier(
        "vit_tiny_patch16_224", "linear", steps=1, adapter="noah", search_steps=1, weights=str(tmp_path / "vit.safetensors"),
        image_size=32, train_size=32,
    )  # fmt: skip
    import filmtransfer.training.prepare as preparation

    searched = []

    def shorter(*words, **more):
        searched.append(find(*words, **more, population=2, generations=1))
        return searched[0]

    find, preparation.find_subnet = preparation.find_subnet, shorter
    try:
        clf.fit(IMAGES[:6], LABELS[:6])
    finally:
        preparation.find_subnet = find
    assert clf.update_.settings["adapter_options"]["subnet"] == searched[0]
    with pytest.raises(UsageError, match="noah"):
        FewShotClassifier(search_steps=5).fit(IMAGES, LABELS)


def test_options_of_the_head():
    plain, pooled = (
        quick(steps=0, head_options=options).fit(IMAGES, LABELS)
        for options in (None, {"covariance": "pooled"})
    )
    assert not np.allclose(plain.predict_proba(NEW), pooled.predict_proba(NEW))
    with pytest.raises(UsageError, match="has no option"):
        quick(head="protonets", head_options={"covariance": "pooled"}).fit(IMAGES, LABELS)


def test_a_temperature_travels_in_the_update(tmp_path):
    clf = quick(head="protonets", head_options={"temperature": 400.0}, steps=0).fit(IMAGES, LABELS)
    clf.save(tmp_path / "warm.safetensors")
    loaded = FewShotClassifier.load(tmp_path / "warm.safetensors")
    assert np.array_equal(loaded.predict_proba(NEW), clf.predict_proba(NEW))
    assert loaded.head_options == {"temperature": 400.0}, "a second fit trains the same kind of classifier"
    assert loaded.film_from == clf.update_.body().film_from
    cold = quick(head="protonets", steps=0).fit(IMAGES, LABELS)
    assert np.array_equal(cold.predict(NEW), clf.predict(NEW)), "it changes the confidence, not the class"
    assert clf.predict_proba(NEW).max(1).mean() < cold.predict_proba(NEW).max(1).mean()


def test_phases_are_reported_in_order():
    phases: list[str] = []
    clf = quick()
    clf.fit_images(LabelledImages.from_memory(IMAGES, LABELS), Callbacks(on_phase=phases.append))
    assert phases == [
        "loading efficientnet_lite0",
        f"reading {len(IMAGES)} photos",
        "computing activations",
        "fine-tuning",
        "choosing the interpolation factor",
        "assessing",
    ]


def test_phases_without_fine_tuning_name_the_features():
    phases: list[str] = []
    clf = quick(steps=0)
    clf.fit_images(LabelledImages.from_memory(IMAGES, LABELS), Callbacks(on_phase=phases.append))
    assert phases[2:] == ["computing features", "assessing"]
