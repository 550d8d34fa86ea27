"""Generators are reproducible, independent and leave torch's global generator alone."""

from __future__ import annotations

import pytest
import torch

from filmtransfer.seeding import integer, make_generator, numpy_generator, permutation


def test_generators_are_named():
    def draw(*name):
        return permutation(50, make_generator(1, *name)).tolist()

    assert draw("a") == draw("a")
    assert draw("a") != draw("b")
    assert permutation(50, make_generator(2, "a")).tolist() != draw("a")


@pytest.mark.parametrize("name", [(), ("a",), ("a", 3)])
def test_numpy_and_torch_give_the_same_permutations(name):
    ours, theirs = numpy_generator(7, *name), make_generator(7, *name)
    for count in (0, 1, 2, 5, 1000):  # in one sequence: both generators advance alike
        assert permutation(count, ours).tolist() == permutation(count, theirs).tolist()


def test_integer_includes_both_ends():
    generator = make_generator(0)
    assert {integer(3, 5, generator) for _ in range(99)} == {3, 4, 5}


def test_the_global_generator_is_not_touched():
    before = torch.get_rng_state()
    from filmtransfer import FewShotClassifier
    from tests.test_estimator import IMAGES, LABELS, SMALL

    FewShotClassifier(steps=1, **SMALL).fit(IMAGES, LABELS)
    assert torch.equal(torch.get_rng_state(), before)
