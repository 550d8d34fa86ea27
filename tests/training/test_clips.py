"""Clips and the frames before a frame, against loops."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.seeding import generator
from filmtransfer.training.clips import Clips, with_history


class Table:
    """Stands for Activations: features by row."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __call__(self, indices: torch.Tensor) -> torch.Tensor:
        return self.rows[indices]


def test_a_clip_has_the_mean_of_its_frames():
    rows = torch.randn(24, 5, generator=generator(0, "clips"))
    clips = Clips(Table(rows), 8)
    assert len(clips) == 3
    expected = torch.stack([rows[8 * i : 8 * i + 8].mean(0) for i in range(3)])
    assert torch.allclose(clips.features(batch=2), expected)
    assert torch.allclose(clips(torch.tensor([2, 0])), expected[[2, 0]])


def test_frames_that_are_no_clips_are_refused():
    with pytest.raises(ValueError, match="10 frames are no clips of 8"):
        Clips(Table(torch.zeros(10, 2)), 8)


@pytest.mark.parametrize(("frames", "length"), [(20, 8), (3, 8), (1, 8), (5, 1)])
def test_every_frame_is_seen_with_those_before_it(frames, length):
    rows = torch.randn(frames, 4, generator=generator(1, "clips"))
    expected = torch.stack(
        [torch.stack([rows[max(0, t - k)] for k in range(length)]).mean(0) for t in range(frames)]
    )
    assert torch.allclose(with_history(rows, length), expected, atol=1e-6)
