"""Simple CNAPs: an untrained generator, the gradient against that of one graph, training, and the file."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from filmtransfer.backbones import load_backbone
from filmtransfer.bench.cnaps.film_generator import CNAPs
from filmtransfer.bench.cnaps.meta_training import (
    META_TRAINING,
    TaskSource,
    bare_features,
    bare_model,
    compare,
    embedder,
    meta_train,
    task_accuracy,
    task_gradient,
)
from filmtransfer.bench.orbit.evaluation import evaluate_task
from filmtransfer.bench.orbit.sample import OrbitSample
from filmtransfer.episodes import split_videos
from filmtransfer.errors import InputError, UpdateFileError
from filmtransfer.seeding import make_generator
from tests.conftest import picture


@pytest.fixture(scope="module")
def backbone():
    return load_backbone("efficientnet_lite0")


@pytest.fixture(scope="module")
def model(backbone):
    return bare_model(backbone, 32)


@pytest.fixture(scope="module")
def source():
    squares = [torch.tensor(np.array(picture(c, 10 * c + i, 32))) for c in range(3) for i in range(6)]
    return TaskSource(
        "shapes", torch.stack(squares).permute(0, 3, 1, 2), torch.arange(3).repeat_interleave(6)
    )


def stirred(backbone, size=0.05):
    """A generator with random last layers."""
    made = CNAPs(backbone, embedding=8, hidden=8)
    generator = make_generator(0, "stir")
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(size * torch.randn(parameter.shape, generator=generator))
    return made


def test_an_untrained_generator_leaves_the_backbone_unchanged(backbone, model, source):
    made = CNAPs(backbone)
    numbers = made.film(bare_features(model, source))
    assert len(numbers) == 2 * len(backbone.sites)
    assert sum(n.numel() for n in numbers.values()) == 20544
    assert all(torch.equal(n, torch.full_like(n, name.endswith("gamma"))) for name, n in numbers.items())
    task = next(source.tasks(META_TRAINING.override(support_size=6, max_query=9), 0))
    assert task_accuracy(made, model, source, task) == task_accuracy(None, model, source, task)


def test_the_encoding_is_independent_of_the_order(backbone, model, source):
    made, bare = stirred(backbone), bare_features(model, source)
    one, other = made.film(bare), made.film(bare.flip(0))
    assert all(torch.allclose(one[name], other[name], atol=1e-5) for name in one)
    assert any(not torch.equal(one[name], made.film(bare[:6])[name]) for name in one)


@pytest.mark.parametrize("length", [1, 2])
def test_the_gradient_equals_that_of_one_graph(backbone, model, source, length):
    videos = torch.arange(18 // length) // 2 if length > 1 else None
    clips = TaskSource("clips", source.pixels, source.labels[::length], length, videos)
    bare = bare_features(model, clips)
    config = META_TRAINING.override(support_size=6, max_query=9, micro_batch=2)
    task = next(clips.tasks(config, 0))
    made, plain = stirred(backbone), stirred(backbone)
    result = task_gradient(made, model, clips, bare, task, config, penalty=0.01)

    changes = plain.changes(bare[task.support])
    embed = embedder(model, clips, {n: d + n.endswith("gamma") for n, d in changes.items()})
    state = model.head.build(embed(task.support), task.support_labels)
    loss = F.cross_entropy(model.head.evaluate(state, embed(task.query)), task.query_labels)
    (loss + 0.01 * sum((d * d).sum() for d in changes.values())).backward()
    assert result.loss == pytest.approx(float(loss.detach()), rel=1e-4)
    for (name, a), b in zip(made.named_parameters(), plain.parameters(), strict=True):
        assert a.grad is not None, name
        assert torch.allclose(a.grad, b.grad, rtol=2e-3, atol=1e-4 * float(b.grad.abs().max()) + 1e-7), name


@pytest.mark.slow
def test_meta_training_lowers_the_loss_and_is_reproducible(backbone, model, source):
    config = META_TRAINING.override(steps=5, learning_rate=2e-3, support_size=6, max_query=9)
    made = [CNAPs(backbone, 8, 8, seed=1) for _ in range(2)]
    histories = [meta_train(one, model, [source], config, seed=3) for one in made]
    assert histories[0].losses == histories[1].losses
    assert all(torch.equal(a, b) for a, b in zip(made[0].parameters(), made[1].parameters(), strict=True))
    task = next(source.tasks(config, 3000))  # the first of those it was trained on
    bare = bare_features(model, source)
    before = task_gradient(CNAPs(backbone, 8, 8, seed=1), model, source, bare, task, config).loss
    after = task_gradient(made[0], model, source, bare, task, config).loss
    assert after < before
    result = compare(made[0], model, source, config, 2, 0)
    assert result["gain"] == pytest.approx(result["generated"] - result["frozen"])


def test_nothing_to_train_on(backbone, model, source):
    with pytest.raises(InputError, match="nothing to meta-train on"):
        meta_train(CNAPs(backbone), model, [], META_TRAINING.override(steps=1))
    one = TaskSource("one", source.pixels[:6], source.labels[:6])
    with pytest.raises(InputError, match="one has one class"):
        meta_train(CNAPs(backbone), model, [one], META_TRAINING.override(steps=1))


def test_clips_of_one_video_are_never_on_both_sides(source):
    clips = TaskSource("clips", source.pixels, source.labels[::2], 2, torch.arange(9) // 2)
    task, drawn = (
        next(clips.tasks(META_TRAINING.override(support_size=4, max_query=9), 5)),
        split_videos(source.labels[::2], clips.videos, 4, make_generator(5, "videos"), 9),
    )
    assert torch.equal(task.support, drawn.support)


def test_the_file(backbone, model, source, tmp_path):
    made = stirred(backbone)
    made.results = {"steps": 3}
    file = tmp_path / "c.safetensors"
    assert made.save(file) == file.stat().st_size
    again = CNAPs.load(file, backbone)
    bare = bare_features(model, source)
    one, other = made.film(bare), again.film(bare)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert again.results == {"steps": 3}

    valid = file.read_bytes()
    for content, message in ((b"", "not a complete"), (valid[:5000], "not a complete")):
        file.write_bytes(content)
        with pytest.raises(UpdateFileError, match=message):
            CNAPs.load(file, backbone)
    file.write_bytes(valid.replace(backbone.digest.encode(), b"0" * 64))
    with pytest.raises(UpdateFileError, match="was trained with efficientnet_lite0"):
        CNAPs.load(file, backbone)
    file.write_bytes(valid.replace(b"filmtransfer-cnaps", b"filmtransfer-xxxxx"))
    with pytest.raises(UpdateFileError, match="not a Simple CNAPs file"):
        CNAPs.load(file, backbone)
    with pytest.raises(UpdateFileError, match="cannot be read"):
        CNAPs.load(tmp_path / "absent", backbone)
    with torch.no_grad():
        made.encoder.bias[0] = float("nan")
    with pytest.raises(InputError, match="nothing was written"):
        made.save(tmp_path / "nan")
    assert not (tmp_path / "nan").exists()


def test_on_a_task_of_orbit(backbone, tmp_path):
    root = OrbitSample(users=1, objects=2, clean=2, clutter=1, frames=4, size=32).write(tmp_path / "orbit")
    made = stirred(backbone)
    made.save(tmp_path / "c.safetensors")
    result = evaluate_task(
        {
            "user": "P001", "videos": "clutter", "task": 0, "backbone": "efficientnet_lite0", "image_size": 32,
            "head": "mahalanobis", "train": "none", "clip_length": 2, "cnaps": str(tmp_path / "c.safetensors"),
        },
        root,
    )  # fmt: skip
    assert result["shared"] == 3_371_008 + made.parameter_count()
    assert result["numbers"] == 1280 * 1283 // 2 * 2
