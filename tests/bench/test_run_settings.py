"""The values of a run's settings are checked before anything is computed."""

from __future__ import annotations

import pytest

from filmtransfer.bench.recipe import load_recipe, recipe_names
from filmtransfer.bench.run_settings import check_run_settings
from filmtransfer.errors import UsageError
from tests.bench.tiny import SETTINGS


def test_the_settings_of_every_recipe_are_allowed():
    for name in recipe_names():
        assert load_recipe(name).runs()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("protocol", "x"),
        ("head", "svm"),
        ("head_options", 3),
        ("preset", "x"),
        ("steps", "x"),
        ("steps", -1),
        ("image_size", 1.5),
        ("prior", "x"),
        ("device", "toaster"),
        ("precision", "x"),
        ("data_split", "released"),  # of VTAB
        ("seed", "x"),
        ("test_images", "x"),
        ("shots", 0),
        ("shots", "few"),
        ("curve", [3, 1]),
        ("curve", "x"),
    ],
)
def test_a_value_that_is_not_allowed_is_a_usage_error(name, value):
    check_run_settings(SETTINGS)
    with pytest.raises(UsageError, match=r"cannot be|no option|has no"):
        check_run_settings({**SETTINGS, name: value})


def test_a_setting_that_the_method_replaces_is_checked_too():
    recipe = load_recipe("few_shot_small")
    with pytest.raises(UsageError, match="steps cannot be 'x'"):
        recipe.with_settings(steps="x", method=["Frozen-LDA"])
    with pytest.raises(UsageError, match="steps cannot be -1"):
        load_recipe("federated_cifar10_small").with_settings(steps=-1)
