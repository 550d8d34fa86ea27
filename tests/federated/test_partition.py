"""Partitions of a data set: every client gets its classes and images, without loss or repetition."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filmtransfer.errors import InputError, UsageError
from filmtransfer.federated.partition import Partition, by_folder, dirichlet, few_shot, merge_class_names
from tests.conftest import picture

SEEDS = st.integers(0, 2**31)


@st.composite
def tasks(draw: st.DrawFn) -> dict:
    """Labels in any order with gaps, and a few-shot partition that they allow."""
    classes = draw(st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True))
    sizes = [draw(st.integers(1, 9)) for _ in classes]
    labels = np.repeat(classes, sizes)
    np.random.default_rng(draw(SEEDS)).shuffle(labels)
    ways = draw(st.integers(1, len(classes)))
    return {
        "labels": labels,
        "clients": draw(st.integers(math.ceil(len(classes) / ways), 20)),
        "ways": ways,
        "shots": draw(st.integers(1, min(sizes))),
        "seed": draw(SEEDS),
    }


def lists(partition: Partition) -> list[list[int]]:
    return [own.tolist() for own in partition.clients]


def balanced(classes: int, each: int) -> np.ndarray:
    return np.tile(np.arange(classes), each)


# The paper's partition.


@settings(deadline=None, max_examples=150)
@given(tasks())
def test_every_client_has_its_ways_and_shots_and_every_class_is_covered(task):
    partition = few_shot(**task)
    assert len(partition) == len(partition.clients) == task["clients"]
    for client, own in enumerate(partition.clients):
        assert len(np.unique(own)) == len(own) == task["ways"] * task["shots"], "no image twice"
        assert partition.counts(client) == dict.fromkeys(partition.classes(client), task["shots"])
        assert len(partition.classes(client)) == task["ways"]
    assert partition.covered() == np.unique(task["labels"]).tolist()


@settings(deadline=None, max_examples=150)
@given(tasks())
def test_classes_are_assigned_evenly(task):
    partition = few_shot(**task)
    holders = Counter(c for client in range(len(partition)) for c in partition.classes(client))
    assert max(holders.values()) - min(holders.values()) <= 1


@settings(deadline=None, max_examples=150)
@given(tasks())
def test_images_are_not_shared_while_they_last(task):
    partition = few_shot(**task)
    times = Counter(np.concatenate(partition.clients).tolist())
    for c in partition.covered():
        members = np.flatnonzero(task["labels"] == c)
        expected = task["shots"] * sum(c in partition.classes(client) for client in range(len(partition)))
        used = [times[int(i)] for i in members]
        assert sum(used) == expected
        if expected <= len(members):
            assert max(used) == 1
        else:
            assert min(used) >= 1, "none is reused before all are used"


@settings(deadline=None, max_examples=100)
@given(tasks(), st.integers(1, 9))
def test_fewer_shots_are_among_more(task, fewer):
    more = few_shot(**task)
    less = few_shot(**{**task, "shots": min(fewer, task["shots"])})
    for client in range(len(more)):
        assert more.classes(client) == less.classes(client)
        assert {*less.clients[client].tolist()} <= {*more.clients[client].tolist()}


@settings(deadline=None, max_examples=50)
@given(tasks(), st.integers(1, 20))
def test_the_first_clients_of_many_have_the_classes_of_few(task, fewer):
    many = few_shot(**task)
    few = few_shot(**{**task, "clients": min(fewer, task["clients"]), "cover": False})
    assert [few.classes(c) for c in range(len(few))] == [many.classes(c) for c in range(len(few))]


def test_one_seed_one_partition():
    labels = balanced(20, 30)
    first, again, other = (few_shot(labels, clients=8, ways=5, shots=3, seed=seed) for seed in (0, 0, 1))
    assert lists(first) == lists(again) != lists(other)
    assert [first.classes(c) for c in range(8)] != [other.classes(c) for c in range(8)]


@pytest.mark.parametrize(("clients", "holders"), [(10, 1), (50, 5), (100, 10), (500, 50)])
def test_the_papers_cifar100(clients, holders):
    """500 images a class: with 500 clients of 10 shots each image is used exactly once."""
    partition = few_shot(balanced(100, 500), clients=clients, ways=10, shots=10, seed=0)
    assert Counter(c for i in range(clients) for c in partition.classes(i)) == dict.fromkeys(
        range(100), holders
    )
    assert len(partition.used()) == clients * 100
    assert partition.describe() == (
        f"{clients} clients, 10 classes and 100 images each; 100 of 100 classes; "
        f"{clients * 100} images in all, each with one client"
    )


def test_images_are_reused_when_there_are_too_few():
    """Quickdraw's small subset: 50 images a class, 500 clients."""
    partition = few_shot(balanced(345, 50), clients=500, ways=35, shots=10, seed=0)
    times = Counter(np.concatenate(partition.clients).tolist())
    assert {*times} == {*range(345 * 50)}
    assert max(times.values()) - min(times.values()) <= 2
    assert "175000 images in all, 17250 of them different" in partition.describe()


def test_the_order_of_the_images_of_a_class_is_random():
    partition = few_shot(balanced(2, 100), clients=1, ways=2, shots=10, seed=3)
    assert np.sort(partition.clients[0]).max() > 60


@pytest.mark.parametrize(
    ("chosen", "kind", "message"),
    [
        (
            {"clients": 3},
            UsageError,
            r"3 clients with 2 classes .* cover all 10 classes.* 5 clients or 4 ways",
        ),
        ({"ways": 11}, UsageError, "11 of 10 classes.* at most 10"),
        ({"shots": 5}, InputError, "4 images of class 0, .* 5"),
        ({"shots": 5, "names": [f"kind {i}" for i in range(10)]}, InputError, "4 images of kind 0"),
        ({"clients": 0}, UsageError, "clients cannot be 0"),
        ({"ways": -1}, UsageError, "ways cannot be -1"),
        ({"shots": 0}, UsageError, "shots cannot be 0"),
        ({"shots": 1.5}, UsageError, "shots cannot be 1.5"),
        ({"clients": True}, UsageError, "clients cannot be True"),
        ({"labels": []}, InputError, "no labels"),
        ({"labels": [0.5, 1.5]}, InputError, "no labels"),
    ],
)
def test_impossible_partitions_are_refused(chosen, kind, message):
    task = {"labels": balanced(10, 4), "clients": 5, "ways": 2, "shots": 1, "seed": 0, **chosen}
    with pytest.raises(kind, match=message):
        few_shot(task.pop("labels"), **task)


def test_not_every_class_has_to_be_covered():
    partition = few_shot(balanced(10, 4), clients=3, ways=2, shots=1, seed=0, cover=False)
    assert len(partition.covered()) == 6, "but as many as possible"
    assert "6 of 10 classes" in partition.describe()


def test_a_small_class_without_a_client_is_allowed():
    labels = np.array([0, 0, 0, 1, 2, 2, 2])
    for seed in range(20):
        try:
            partition = few_shot(labels, clients=1, ways=1, shots=3, seed=seed, cover=False)
        except InputError:
            continue
        assert partition.covered() in ([0], [2])


# Label skew.


@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=200),
    st.integers(1, 12),
    st.floats(1e-3, 1e3),
    SEEDS,
    st.integers(0, 4),
)
def test_dirichlet_gives_every_image_to_one_client(labels, clients, alpha, seed, least):
    if clients * least > len(labels):
        with pytest.raises(UsageError, match=f"{len(labels)} images are not enough"):
            dirichlet(labels, clients=clients, alpha=alpha, seed=seed, least=least)
        return
    partition = dirichlet(labels, clients=clients, alpha=alpha, seed=seed, least=least)
    assert sorted(np.concatenate(partition.clients).tolist()) == list(range(len(labels)))
    assert len(partition) == clients
    assert min(map(len, partition.clients)) >= least
    assert lists(partition) == lists(dirichlet(labels, clients=clients, alpha=alpha, seed=seed, least=least))


def test_alpha_determines_the_imbalance():
    labels = balanced(10, 200)

    def classes_each(alpha: float) -> float:
        partition = dirichlet(labels, clients=20, alpha=alpha, seed=0)
        return float(np.mean([len(partition.classes(c)) for c in range(20)]))

    assert classes_each(0.01) < 3 < classes_each(0.1) < 8 < classes_each(100.0)
    sizes = [len(own) for own in dirichlet(labels, clients=20, alpha=1e6, seed=0).clients]
    assert max(sizes) - min(sizes) <= 10
    assert lists(dirichlet(labels, clients=20, alpha=1.0, seed=0)) != lists(
        dirichlet(labels, clients=20, alpha=1.0, seed=1)
    )


@pytest.mark.parametrize("alpha", [1e-300, 1e-30, 1e300])
def test_extreme_alphas(alpha):
    partition = dirichlet(balanced(4, 50), clients=5, alpha=alpha, seed=0)
    assert sorted(np.concatenate(partition.clients).tolist()) == list(range(200))
    classes = [len(partition.classes(c)) for c in range(5)]
    assert (max(classes) == 4) if alpha > 1 else (sum(classes) <= 4 + 5), "each class with one client"


def test_dirichlet_may_leave_a_client_without_images_if_allowed():
    partition = dirichlet(balanced(2, 3), clients=30, alpha=1.0, seed=0, least=0)
    assert min(map(len, partition.clients)) == 0
    assert partition.describe().startswith("30 clients, 0 to ")


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"alpha": 0}, "alpha cannot be 0"),
        ({"alpha": math.nan}, "alpha cannot be nan"),
        ({"alpha": math.inf}, "alpha cannot be inf"),
        ({"clients": 0}, "clients cannot be 0"),
        ({"least": -1}, "least cannot be -1"),
    ],
)
def test_invalid_dirichlet_settings_are_refused(chosen, message):
    with pytest.raises(UsageError, match=message):
        dirichlet(balanced(3, 3), **{"clients": 2, "alpha": 1.0, "seed": 0, **chosen})


# A folder per client.


def make(root: Path, **clients: dict[str, int]) -> Path:
    for client, classes in clients.items():
        (root / client).mkdir(parents=True)
        for name, count in classes.items():
            (root / client / name).mkdir()
            for i in range(count):
                picture(i, i, 8).save(root / client / name / f"{i}.png")
    return root


def test_a_folder_per_client(tmp_path):
    root = make(tmp_path, zoe={"cat": 2, "dog": 1}, anna={"cat": 1, "elk": 3}, bob={"cat": 2})
    (root / ".hidden").mkdir()
    (root / "notes.txt").write_text("not a client")
    clients = by_folder(root)
    assert list(clients) == ["anna", "bob", "zoe"]
    assert {name: (images.classes, len(images)) for name, images in clients.items()} == {
        "anna": (["cat", "elk"], 4),
        "bob": (["cat"], 2),
        "zoe": (["cat", "dog"], 3),
    }
    assert not clients["zoe"].warnings
    assert any("one class, cat" in note for note in clients["bob"].warnings)


def test_folders_that_are_not_clients(tmp_path):
    with pytest.raises(InputError, match="There is no folder"):
        by_folder(tmp_path / "none")
    with pytest.raises(InputError, match="no client folders"):
        by_folder(tmp_path)
    make(tmp_path, anna={"cat": 1}, empty={"dog": 0})
    with pytest.raises(InputError, match=r"client empty in .* has no images"):
        by_folder(tmp_path)
    with pytest.raises(InputError, match=r"client cat in .* has photos but no class folders"):
        by_folder(tmp_path / "anna")


def test_clients_that_spell_a_class_differently(tmp_path):
    make(tmp_path, anna={"Cat": 1, "dog": 1}, bob={"cat": 1, "elk": 1})
    with pytest.raises(InputError, match=r"anna and bob have classes .*: 'Cat' and 'cat'"):
        by_folder(tmp_path)


# Names of classes.


def test_the_union_of_class_names():
    assert merge_class_names({"a": ["dog", "cat"], "b": ["elk", "cat"], "c": []}) == ["cat", "dog", "elk"]
    assert merge_class_names({}) == []


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("cat", "CAT", "'cat' and 'CAT'"),
        ("Straße", "STRASSE", "'Straße' and 'STRASSE'"),
        ("é", unicodedata.normalize("NFD", "é"), r"'\\xe9' and 'e\\u0301'"),
        ("É", unicodedata.normalize("NFD", "é"), "'É' and 'e\u0301'"),
        ("cat", "cat ", "'cat' and 'cat '"),
        ("guinea pig", "guinea  pig", "'guinea pig' and 'guinea  pig'"),
    ],
)
def test_names_that_differ_only_in_spelling(one, other, shown):
    with pytest.raises(InputError, match=f"anna and bob have .*: {shown}"):
        merge_class_names({"anna": [one, "dog"], "bob": ["dog", other]})
    with pytest.raises(InputError, match="anna has classes"):
        merge_class_names({"anna": [one, other]})


def test_names_that_are_different():
    assert merge_class_names({"a": ["x2", "résumé"], "b": ["x²", "resume"]}) == [
        "resume",
        "résumé",
        "x2",
        "x²",
    ]


@pytest.mark.parametrize("name", ["", "  ", 3, None])
def test_a_class_without_a_name(name):
    with pytest.raises(InputError, match="anna has a class called"):
        merge_class_names({"anna": [name]})


@given(st.dictionaries(st.text(max_size=3), st.lists(st.text(max_size=3)), max_size=4))
def test_names_are_merged_or_refused(names):
    try:
        merged = merge_class_names(names)
    except InputError:
        return
    assert merged == sorted({name for own in names.values() for name in own})
    assert len({unicodedata.normalize("NFC", name.casefold()) for name in merged}) == len(merged)
