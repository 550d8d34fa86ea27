"""Normalisation and resizing of squares as tensors."""

from __future__ import annotations

import torch

from filmtransfer.data import PixelSpec, to_square
from filmtransfer.model.tensors import normalise, resize
from tests.data.test_pixels import SPEC, gradient


def test_normalise_uses_the_backbones_mean_and_std():
    pixels = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 3, 2, 2)
    assert normalise(pixels, SPEC).flatten(1).unique(dim=1).flatten().tolist() == [-1.0, 1.0]


def test_resize_agrees_with_pillow():
    square = torch.from_numpy(to_square(gradient(96, 96), PixelSpec(96, SPEC.mean, SPEC.std)))
    ours = resize(square[None], 32)[0]
    theirs = torch.from_numpy(to_square(gradient(96, 96), SPEC))
    assert (ours.int() - theirs.int()).abs().max() <= 2
    assert resize(square[None], 96)[0] is not None
