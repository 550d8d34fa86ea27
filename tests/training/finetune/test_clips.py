"""Clips and the frames before a frame, against loops."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.backbones import load_backbone
from filmtransfer.episodes import episodes
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.seeding import make_generator
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.clips import Clips, with_history
from filmtransfer.training.finetune.episodic import finetune
from filmtransfer.training.presets import preset


class Table:
    """Stands for Activations: features by row."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __call__(self, indices: torch.Tensor) -> torch.Tensor:
        return self.rows[indices]


def test_a_clip_has_the_mean_of_its_frames():
    rows = torch.randn(24, 5, generator=make_generator(0, "clips"))
    clips = Clips(Table(rows), 8)
    assert len(clips) == 3
    expected = torch.stack([rows[8 * i : 8 * i + 8].mean(0) for i in range(3)])
    assert torch.allclose(clips.features(batch=2), expected)
    assert torch.allclose(clips(torch.tensor([2, 0])), expected[[2, 0]])


def test_frames_that_are_no_clips_are_refused():
    with pytest.raises(ValueError, match="10 frames cannot be divided into clips of 8"):
        Clips(Table(torch.zeros(10, 2)), 8)


@pytest.mark.parametrize(("frames", "length"), [(20, 8), (3, 8), (1, 8), (5, 1)])
def test_every_frame_is_seen_with_those_before_it(frames, length):
    rows = torch.randn(frames, 4, generator=make_generator(1, "clips"))
    expected = torch.stack(
        [torch.stack([rows[max(0, t - k)] for k in range(length)]).mean(0) for t in range(frames)]
    )
    assert torch.allclose(with_history(rows, length), expected, atol=1e-6)


def test_clips_of_one_frame_are_images():
    """Fine-tuning on clips of one frame, by the same episodes, is fine-tuning on images: bit for bit."""
    backbone = load_backbone("efficientnet_lite0")
    pixels = torch.randint(0, 255, (8, 3, 32, 32), generator=make_generator(2, "clips"), dtype=torch.uint8)
    labels = torch.arange(2).repeat_interleave(4)
    config = preset("orbit_b0").override(steps=2, support_size=4, split="resplit")
    learned = []
    for as_clips in (False, True):
        model = AdaptedModel(backbone, make_head("lda"), 32)
        images = Activations(model, pixels, config.cache_mb)
        tasks = episodes(labels, "resplit", 4, 0, config.max_query) if as_clips else None
        embed = Clips(images, 1) if as_clips else images
        history = finetune(model, embed, labels, config, seed=0, tasks=tasks)
        assert history.steps == 2
        learned.append([parameter.detach() for parameter in model.trainable_parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*learned, strict=True))
    assert any(bool((p != 1).any()) for p in learned[0])
