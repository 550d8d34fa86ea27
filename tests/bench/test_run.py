"""One run: its task, its parameter counts, its learning curve."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from filmtransfer import FewShotClassifier
from filmtransfer.arrays import to_numpy
from filmtransfer.backbones import backbone_facts
from filmtransfer.bench.methods import METHODS
from filmtransfer.bench.recipe import ESTIMATOR_KEYS
from filmtransfer.bench.run import compute_result, draw_task
from filmtransfer.bench.training_curve import accuracy_curve
from filmtransfer.cli.show import counts_table
from filmtransfer.errors import InputError, UnavailableError, UsageError
from filmtransfer.model.body import Body
from filmtransfer.model.update import copies
from filmtransfer.training.presets import PRESETS
from tests.bench.tiny import SETTINGS, make_set

LITE = "efficientnet_lite0"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = make_set(tmp_path_factory.mktemp("data"))
    uneven(folder)
    return folder


def uneven(folder: Path) -> None:
    """Images that encode their index: class 1 has two training images, class 2 none, class 3 five."""
    train_y, test_y = np.array([0, 0, 0, 1, 1, 3, 3, 3, 3, 3]), np.repeat(np.arange(4), 3)
    images = np.arange(22, dtype=np.uint8)[:, None, None, None] * np.ones((8, 8, 3), np.uint8)
    np.savez(
        folder / "uneven.npz", train_x=images[:10], train_y=train_y, test_x=images[10:], test_y=test_y,
        classes=np.array(["a", "b", "none", "d"]),
    )  # fmt: skip


def settings(method: str = "FiT-LDA", **more: Any) -> dict[str, Any]:
    return {**SETTINGS, "head": "lda", "batch": 8, **METHODS[method], "method": method, **more}


def which(images: Any) -> list[int]:
    """The indices of the images of the uneven dataset."""
    return [int(image[0, 0, 0]) for image in images]


def pixels(task: Any) -> tuple[bytes, bytes]:
    return np.stack(task.train.sources).tobytes(), np.stack(list(task.images)).tobytes()


# The task.


def test_every_method_and_backbone_has_the_same_task_and_every_seed_another(root):
    first = draw_task(settings("FiT-LDA"), root)
    for other in (settings("BiT"), settings("LoRA", backbone="resnet18", image_size=64), settings(steps=9)):
        task = draw_task(other, root)
        assert pixels(task) == pixels(first)
        assert task.train.labels == first.train.labels
    other = draw_task(settings(seed=1), root)
    assert pixels(other)[0] != pixels(first)[0]
    assert pixels(other)[1] == pixels(first)[1], "the test images are those of the set"


def test_fewer_shots_are_a_subset_of_more(root):
    drawn = [draw_task(settings(shots=shots, seed=3), root).train for shots in (1, 2, 3, 4)]
    for less, more in itertools.pairwise(drawn):
        assert {s.tobytes() for s in less.sources} < {s.tobytes() for s in more.sources}
    for shots, learn in enumerate(drawn, 1):
        assert np.bincount(learn.labels).tolist() == [shots] * 5


def test_all_shots_are_all_images(root):
    task = draw_task(settings(shots="all"), root)
    assert len(task.train) == 20
    without = {k: v for k, v in settings().items() if k != "shots"}
    assert pixels(draw_task(without, root)) == pixels(task), "and what a recipe without shots means"


def test_fewer_images_than_shots_is_an_error_with_class_and_counts(root):
    with pytest.raises(InputError, match="uneven has 2 training images of b, but 3 shots are required"):
        draw_task(settings(dataset="uneven", shots=3), root)
    with pytest.raises(InputError, match="uneven has 0 training images of none, but 1 shot is"):
        draw_task(settings(dataset="uneven", shots=1), root)


@pytest.mark.parametrize("shots", [0, -1, 1.5, True, "some", [1]])
def test_invalid_shots(root, shots):
    with pytest.raises(UsageError, match="shots cannot be"):
        draw_task(settings(shots=shots), root)


def test_classes_without_training_images_count_as_errors(root):
    task = draw_task(settings(dataset="uneven", shots="all"), root)
    assert task.train.classes == ["a", "b", "d"]
    assert task.train.labels == [0, 0, 0, 1, 1, 2, 2, 2, 2, 2]
    assert task.labels.tolist() == [0, 0, 0, 1, 1, 1, -1, -1, -1, 2, 2, 2]
    assert which(task.images) == list(range(10, 22))
    assert compute_result(settings("Frozen-LDA", dataset="uneven", shots="all"), root)["accuracy"] <= 0.75


def test_a_limit_on_test_images_chooses_the_same_for_every_seed(root):
    chosen = [draw_task(settings(dataset="uneven", shots="all", test_images=5, seed=s), root) for s in (0, 1)]
    assert which(chosen[0].images) == which(chosen[1].images)
    assert len({*which(chosen[0].images)}) == 5
    labels = np.repeat([0, 1, -1, 2], 3)
    assert chosen[0].labels.tolist() == [labels[i - 10] for i in which(chosen[0].images)]
    more = draw_task(settings(dataset="uneven", shots="all", test_images=500), root)
    assert which(more.images) == list(range(10, 22))


def test_vtab_takes_a_thousand_training_images(root):
    task = draw_task(settings(protocol="vtab", shots="all"), root)
    assert len(task.train) == 20
    assert any("All 20 training images were taken" in note for note in task.notes)
    with pytest.raises(UsageError, match="protocol cannot be 'vtab2'"):
        draw_task(settings(protocol="vtab2"), root)


def test_a_missing_dataset(root):
    with pytest.raises(UnavailableError, match="CIFAR100 is not in"):
        draw_task(settings(dataset="cifar100"), root)


# The result.


@pytest.fixture(scope="module")
def results(root) -> dict[str, dict[str, Any]]:
    """With film_from=0, so that FiLM is everywhere, as in the paper."""
    names = ("FiT-LDA", "FiT-QDA", "FiT-ProtoNets", "BiT", "BiT-FiLM", "LDA-None", "LDA-All", "Linear-None")
    return {name: compute_result(settings(name, film_from=0), root) for name in names}


@pytest.mark.slow
def test_what_a_run_records(results):
    for name, result in results.items():
        assert json.loads(json.dumps(result)) == result, "one line of JSON, and the same when read again"
        assert 0 <= result["accuracy"] <= 1
        assert (result["images"], result["classes"], result["test_images"]) == (10, 5, 30)
        assert result["steps"] == (0 if name == "Linear-None" else 1)
        assert result["stopped"] == "done"
        assert len(result["backbone_sha256"]) == 64
        assert result["threads"] == torch.get_num_threads()
    film = results["FiT-LDA"]["film"]
    assert len(film) == 2 * len(backbone_facts(LITE).site_names)
    assert all(quantiles == sorted(quantiles) and len(quantiles) == 5 for quantiles in film.values())
    assert max(q[-1] for q in film.values()) > 0, "FiLM moved"
    assert "film" in results["BiT-FiLM"]
    assert not {"film"} & results["BiT"].keys()


@pytest.mark.slow
def test_parameters_are_counted_as_in_the_papers_table(results):
    paper = {row["method"]: row for row in counts_table(LITE, 5)}
    paper["BiT"] = paper.pop("full fine-tuning (BiT)")
    for name, row in paper.items():
        assert results[name]["numbers"] == row["updateable"], name
        assert results[name]["rmus"] == row["rmus"], name
    known = backbone_facts(LITE)
    film = results["BiT-FiLM"]
    assert film["body"] == known.film_parameters == results["FiT-LDA"]["body"]
    assert film["numbers"] == known.film_parameters + 5 * (known.features + 1)
    assert film["rmus"] == film["numbers"] / paper["BiT"]["updateable"]
    assert results["LDA-None"]["numbers"] == 5 * (known.features + 1) + 2
    assert results["LDA-All"]["body"] == known.parameters


@pytest.mark.slow
def test_bytes_equal_the_size_of_the_compact_file(results, root, tmp_path):
    for name in ("FiT-LDA", "BiT", "Linear-None"):
        chosen = settings(name, film_from=0)
        clf = FewShotClassifier(
            **{k: v for k, v in chosen.items() if k in ESTIMATOR_KEYS}, seed=chosen["seed"]
        )
        clf.fit_images(draw_task(chosen, root).train)
        assert (
            clf.save(tmp_path / name, compact=True)
            == results[name]["bytes"]
            == (tmp_path / name).stat().st_size
        )


def test_the_same_run_gives_the_same_result(results, root):
    timed = {"seconds", "seconds_in_all"}
    for name in ("FiT-LDA", "BiT"):
        again = compute_result(settings(name, film_from=0), root)
        assert {k: v for k, v in again.items() if k not in timed} == {
            k: v for k, v in results[name].items() if k not in timed
        }


def test_none_trains_only_the_covariance_weights(root):
    chosen = settings("LDA-None", steps=2)
    clf = FewShotClassifier(**{k: v for k, v in chosen.items() if k in ESTIMATOR_KEYS})
    task = draw_task(chosen, root)
    model = clf.prepare(task.train).model
    assert not model.backbone_parameters()
    before = np.concatenate([to_numpy(p).flatten() for p in model.trainable_parameters()])
    clf.fit_images(task.train)
    assert not clf.update_.parameters
    assert clf.history_.steps == 2
    assert clf.update_.head_weights is not None
    assert not np.array_equal(clf.update_.head_weights, before)


@pytest.mark.parametrize("method", ["LDA-All", "Linear-All", "Linear-FiLM"])
def test_all_weights_are_trained(root, method):
    chosen = settings(method, preset="paper", learning_rate=0.01, steps=1)
    clf = FewShotClassifier(**{k: v for k, v in chosen.items() if k in ESTIMATOR_KEYS})
    task = draw_task(chosen, root)
    start = copies(clf.prepare(task.train).model.backbone_parameters())
    clf.fit_images(task.train)
    assert clf.update_.parameters.keys() == start.keys()
    moved = [not np.array_equal(value, start[name]) for name, value in clf.update_.parameters.items()]
    assert all(moved)


# The curve.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "preset"),
    [("FiT-LDA", "paper"), ("LDA-None", "paper"), ("BiT", "bit"), ("BiT-FiLM", "bit"), ("FiLM", "adapters")],
)
def test_a_curve_ends_at_the_accuracy_of_a_run_with_as_many_steps(root, method, preset):
    chosen = settings(method, preset=preset, learning_rate=0.01, shots=4)
    result = compute_result({**chosen, "curve": [0, 1, 3]}, root)
    assert [step for step, _ in result["curve"]] == [0, 1, 3]
    assert result["accuracy"] == result["curve"][-1][1]
    assert PRESETS[preset].hold_out == 0
    assert result["accuracy"] == compute_result({**chosen, "steps": 3}, root)["accuracy"]
    if PRESETS[preset].rule == "cosine":
        assert result["curve"][0][1] == compute_result({**chosen, "steps": 0}, root)["accuracy"]
    else:
        assert result["curve"][0][1] == 1 / 5, "a head of zeros"


def test_evaluation_does_not_change_training(root):
    often = compute_result({**settings(preset="paper", shots=4), "curve": [0, 1, 2, 3]}, root)["curve"]
    once = compute_result({**settings(preset="paper", shots=4), "curve": [3]}, root)["curve"]
    assert once == often[-1:]


@pytest.mark.parametrize("steps", [3, "all", [2, 1], [1, 1], [-1, 2], [0.5], [True]])
def test_invalid_curves(root, steps):
    task = draw_task(settings(), root)
    with pytest.raises(UsageError, match="curve cannot be"):
        accuracy_curve(FewShotClassifier(), task.train, task.images, task.labels, steps)


# The methods.


@pytest.mark.parametrize("method", METHODS)
def test_the_settings_of_a_method_match_its_name(method):
    chosen = METHODS[method]
    assert chosen.keys() <= ESTIMATOR_KEYS
    config = FewShotClassifier(**{k: v for k, v in chosen.items() if k in ESTIMATOR_KEYS}).training_config()
    body = config.body()
    heads = {"LDA": "lda", "QDA": "qda", "ProtoNets": "protonets", "Linear": "linear", "BiT": "linear"}
    named = [head for word, head in heads.items() if word in method.split("-")] or ["linear"]
    assert chosen["head"] == named[0]
    parts = method.split("-")
    if parts[-1] == "None" or parts[0] == "Frozen":
        assert body.train == "none"
        assert (config.steps == 0) is (parts[0] == "Frozen")
    elif parts[-1] == "All" or method == "BiT":
        assert body.train == "all"
    else:
        assert body.train == "adapter"
        wanted = (
            parts[0].lower()
            if parts[0] in ("VPT", "Adapter", "AdaptFormer", "LoRA", "NOAH", "Convpass")
            else "film"
        )
        assert body == Body.of("adapter", wanted, config.film_from or 0)
    if chosen["head"] == "linear" and parts[-1] != "None":
        assert config.rule == ("hyperrule" if parts[0] in ("BiT", "Linear") else "cosine")
