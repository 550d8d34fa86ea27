"""Global classifiers from sums equal those from pooled features; what they and ψ cost on the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from filmtransfer.backbones import assemble, build, record_for
from filmtransfer.errors import InputError
from filmtransfer.estimator import FewShotClassifier
from filmtransfer.federated import messages
from filmtransfer.federated.compression import decode, encode
from filmtransfer.federated.global_classifier import global_update
from filmtransfer.federated.messages import Cost
from filmtransfer.federated.parameters import layout_of, make_model, read, write
from filmtransfer.federated.plan import Plan, named
from filmtransfer.federated.statistics import from_arrays, to_arrays
from filmtransfer.heads import LDA, ProtoNets, Statistics
from tests.federated.tiny import PLAN, population, server


@pytest.mark.parametrize("head", ["protonets", "lda"])
@pytest.mark.parametrize("secure", [False, True])
def test_the_global_head_is_the_pooled_one(head, secure, tmp_path):
    found = population(replace(PLAN, head=head, secure=secure))
    made = server(found)
    psi = made.run().psi
    statistics, classes = made.statistics(psi)
    update = global_update(made.model, found.plan, psi, statistics, classes)

    write(found.model, psi)
    everything = torch.cat([found.rows(i) for i in range(len(found))])
    features = found.pool.features()[everything]
    pooled = found.model.head.configure(features, found.labels[everything])
    tried = found.test.features()
    expected = pooled.logits(tried)
    path = tmp_path / "global.safetensors"
    update.save(path)
    loaded = FewShotClassifier.load(path, backbone=found.model.backbone)
    assert loaded.update_.classes == classes == found.classes
    logits = loaded.model_.head.logits(tried)
    # Distances are large and only their differences count.
    assert (logits.softmax(1) - expected.softmax(1)).abs().max() < 1e-4
    assert (logits - expected).abs().max() < 2e-5 * expected.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("head", [ProtoNets, LDA])
def test_sums_on_their_way_lose_nothing(head, dtype):
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(30, 7, generator=generator, dtype=dtype) + 3
    labels = torch.arange(30) % 4
    scatter = "task" if head is LDA else "none"
    parts = [
        Statistics.of(features[rows], labels[rows], 4, scatter)  # unequal, and not all with all classes
        for rows in (torch.arange(5), torch.arange(5, 8), torch.arange(8, 30))
    ]
    sent = [to_arrays(part) for part in parts]
    total = {name: sum(part[name] for part in sent) for name in sent[0]}
    back = from_arrays(total, 4, 7, head.name)
    one = head().to(dtype).configure(features, labels).logits(features)
    other = head().to(dtype).configure_from(replace(back, dtype=dtype)).logits(features)
    assert (one - other).abs().max() < (1e-10 if dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda a: a | {"sums": a["sums"][:, :-1]}, "shapes"),
        (lambda a: {"counts": a["counts"]}, "shapes"),
        (lambda a: a | {"sums": a["sums"] * np.nan}, "not finite"),
        (lambda a: a | {"counts": a["counts"] - 99}, "whole numbers"),
        (lambda a: a | {"counts": a["counts"] + 0.5}, "whole numbers"),
    ],
)
def test_statistics_that_cannot_be_are_refused(change, why):
    arrays = to_arrays(Statistics.of(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]), 2, "none"))
    with pytest.raises(InputError, match=why):
        from_arrays(change(arrays), 2, 3, "protonets")


# What travels


def bare(name: str):
    entry = record_for(name)
    return assemble(entry, build(entry), fold=False)


def test_the_papers_count_of_what_travels():
    """11,648 numbers, five clients, both ways: 0.1 M a round and 7 M in 60; BiT 237 M and 14 B."""
    backbone = bare("bit_m_r50x1")
    film = layout_of(make_model(replace(named("cifar100"), backbone="bit_m_r50x1"), backbone=backbone))
    assert film.length == 11_648
    assert film.length * 5 * 2 * 60 == 6_988_800
    whole = layout_of(make_model(replace(named("bit"), backbone="bit_m_r50x1"), 100, backbone=backbone))
    assert whole.length == 23_500_352 + 100 * 2048 + 100
    assert round(whole.length * 5 * 2 / 1e6) == 237
    cost = Cost()
    message = messages.Message(
        messages.request(named("cifar100"), 1, encode(np.zeros(film.length), "none", film.sizes)),
        dst_node_id=1, message_type=messages.ROUND,
    )  # fmt: skip
    cost.add(message)
    assert cost.parameters == 11_648
    assert 4 * 11_648 < cost.bytes < 4 * 11_648 + 3_000, "the plan and Flower's own records"


def test_the_presets_are_the_papers():
    cifar, quickdraw, bit = named("cifar100"), named("quickdraw"), named("bit")
    training = cifar.training
    assert (cifar.rounds, cifar.clients_per_round) == (60, 5)
    assert (training.steps, training.learning_rate) == (10, 0.003)
    assert cifar.rate(60) == pytest.approx(0.003 * 0.09)
    assert (quickdraw.rounds, quickdraw.training.learning_rate, quickdraw.rate(120)) == (120, 0.006, 0.006)
    assert (bit.head, bit.training.train, bit.rate(60), bit.rounds) == ("linear", "all", 0.003, 60)
    released = named("released").training
    assert (training.weight_decay, released.weight_decay, cifar.mu) == (0.0, 1e-3, 0.01)


def test_a_round_counts_what_it_sends():
    found = population()
    state = server(found).run()
    for line in state.rounds:
        assert line["parameters_down"] == line["parameters_up"] == 3 * len(found.start)
        assert 12 * len(found.start) < line["bytes_down"] < 12 * len(found.start) + 9_000


# Compression


@pytest.mark.parametrize(("how", "size"), [("none", 4), ("float16", 2), ("int8", 1)])
def test_what_is_packed_can_be_unpacked(how, size):
    generator = np.random.default_rng(0)
    vector = np.concatenate([generator.normal(0, 1e-3, 50), np.zeros(7), generator.normal(0, 5, 20)])
    packed = encode(vector, how, [50, 7, 20])
    assert packed["psi"].nbytes == size * 77
    back = decode(packed, how, [50, 7, 20])
    scale = np.repeat([np.abs(vector[:50]).max(), 0, np.abs(vector[57:]).max()], [50, 7, 20])
    tolerance = {"none": 1e-7, "float16": 1e-3, "int8": 0.5 / 127 + 1e-6}[how]
    assert (np.abs(back - vector) <= tolerance * scale + (1e-7 if how == "float16" else 0)).all()


def test_packed_nonsense_is_refused():
    good = encode(np.ones(5), "int8", [3, 2])
    for bad in (
        {}, {"psi": good["psi"]}, good | {"psi": good["psi"][:4]}, good | {"scale": good["scale"][:1]},
        good | {"psi": good["psi"].astype(np.int16)},
    ):  # fmt: skip
        with pytest.raises(InputError):
            decode(bad, "int8", [3, 2])


def test_what_rounding_leaves_out_is_sent_later(tmp_path):
    """Error feedback: over rounds, what arrived is what was meant but for the last rounding."""
    plan = replace(PLAN, compression="int8", rounds=4, clients_per_round=1, min_clients=1)
    found = population(plan)
    found.state = tmp_path
    client = found.client(0)
    meant, arrived = np.zeros(len(found.start)), np.zeros(len(found.start))
    sizes = client.sizes
    for number in range(1, 5):
        sent = encode(np.zeros(len(found.start)), "int8", sizes)
        packed, _ = client.round(plan, number, sent)
        learned = read(found.model)
        meant += learned - found.start
        arrived += decode(packed, "int8", sizes)
        left = client._debts()[number]
        assert np.abs(meant - (arrived + left)).max() < 1e-5
        again, _ = client.round(plan, number, sent)  # a round that is repeated is the same
        assert np.array_equal(again["psi"], packed["psi"])
    assert sorted(client._debts()) == [3, 4]


@pytest.mark.parametrize("how", ["float16", "int8"])
def test_a_compressed_federation_goes_where_the_other_goes(how):
    plain, packed = (server(population(replace(PLAN, compression=c))).run() for c in ("none", how))
    moved = plain.psi - population().start
    assert np.linalg.norm(packed.psi - plain.psi) < 0.5 * np.linalg.norm(moved)
    less = {"float16": 0.52, "int8": 0.28}[how]
    assert packed.rounds[0]["bytes_up"] < less * plain.rounds[0]["bytes_up"]
    assert packed.rounds[0]["bytes_down"] < less * plain.rounds[0]["bytes_down"] + 5_000
    assert Plan().compression == "none"
