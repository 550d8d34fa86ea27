"""Streams are reproducible, independent and leave torch's own generator alone."""

from __future__ import annotations

import torch

from filmtransfer.seeding import generator, integer, permutation


def test_streams():
    def draw(*name):
        return permutation(50, generator(1, *name)).tolist()

    assert draw("a") == draw("a")
    assert draw("a") != draw("b")
    assert permutation(50, generator(2, "a")).tolist() != draw("a")


def test_integer_includes_both_ends():
    stream = generator(0)
    assert {integer(3, 5, stream) for _ in range(99)} == {3, 4, 5}


def test_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    from filmtransfer import FewShotClassifier
    from tests.test_estimator import IMAGES, LABELS, SMALL

    FewShotClassifier(steps=1, **SMALL).fit(IMAGES, LABELS)
    assert torch.equal(torch.get_rng_state(), before)
