"""The values of the presets, and what is chosen beside them."""

from __future__ import annotations

import pytest

from filmtransfer.errors import UsageError
from filmtransfer.training.presets import ALL_WEIGHTS, PRESETS, preset


def test_the_papers_settings():
    paper = PRESETS["paper"]
    assert (paper.steps, paper.learning_rate, paper.support_size, paper.max_query) == (400, 0.0035, 100, 2000)
    assert (paper.size_for(500), paper.size_for(32)) == (384, 224)
    assert PRESETS["paper_v2m"].steps == 1000
    assert PRESETS["paper"].split == "paper"
    assert (PRESETS["federated_cifar100"].steps, PRESETS["federated_cifar100"].learning_rate) == (10, 0.003)
    assert PRESETS["federated_quickdraw"].learning_rate == 0.006
    assert (PRESETS["bound_quickdraw_upper"].steps, PRESETS["bound_cifar100"].steps) == (3000, 400)
    assert (PRESETS["orbit_b0"].steps, PRESETS["orbit_b0"].learning_rate) == (50, 0.007)
    assert (PRESETS["orbit_bit"].steps, PRESETS["orbit_bit"].learning_rate) == (50, 0.003)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid(name):
    assert PRESETS[name].validate() == preset(name)


def test_chosen_settings_replace_those_of_the_preset():
    config = preset("paper", steps=3, split=None)
    assert (config.steps, config.split) == (3, "paper")
    assert preset("fast", image_size=64).small_image_size == 64, "one size for images of every size"
    assert preset("fast", image_size=64, small_image_size=48).small_image_size == 48
    with pytest.raises(UsageError, match="The preset"):
        preset("slow")


def test_training_all_weights_has_its_own_learning_rate():
    assert preset("fast", train="all").learning_rate == ALL_WEIGHTS
    assert preset("fast", train="all", learning_rate=0.5).learning_rate == 0.5
    assert preset("bit", train="all").learning_rate == 0.003, "the HyperRule has one"
