"""Every training setting is declared once, and everything else follows from the declaration."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import click
import pytest
import typer

from filmtransfer.adapters import ADAPTERS
from filmtransfer.cli.app import command_line
from filmtransfer.data.pixels import MAX_SIZE
from filmtransfer.episodes import SPLITS
from filmtransfer.episodes.sample import MAX_QUERY
from filmtransfer.errors import UsageError
from filmtransfer.model.body import TRAIN
from filmtransfer.training.config import TrainingConfig, names, settings


@pytest.mark.parametrize("setting", settings(), ids=lambda setting: setting.name)
def test_every_setting_has_help_bounds_and_a_valid_default(setting):
    setting.check(setting.default)
    assert setting.help.endswith((".", ")"))
    assert bool(setting.none) == setting.optional, "what None means is documented where None is a value"
    if setting.kind in (int, float):
        assert max(setting.minimum, setting.above) > -math.inf, "a number has a lower bound"
    assert setting.allowed()


def test_choices_are_those_of_their_owners():
    choices = {setting.name: setting.choices for setting in settings()}
    assert choices["split"] == ("auto", "paper", *SPLITS)
    assert choices["adapter"] == tuple(ADAPTERS)
    assert choices["train"] == TRAIN
    assert next(s for s in settings() if s.name == "image_size").maximum == MAX_SIZE
    assert TrainingConfig().max_query == MAX_QUERY


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", -1), ("steps", True), ("steps", 2.0), ("steps", "2"), ("learning_rate", 0), ("learning_rate", math.nan),
        ("learning_rate", math.inf), ("weight_decay", -0.1), ("weight_decay", math.inf), ("cache_mb", -1), ("cache_mb", math.inf),
        ("support_size", 1), ("max_query", 0), ("micro_batch", 0), ("batch", 0), ("search_steps", -1), ("film_from", -1),
        ("image_size", 31), ("image_size", 4097), ("small_image_size", 5000), ("train_size", 8), ("hold_out", 0.6), ("time_limit", 0),
        ("split", "thirds"), ("rule", "linear"), ("train", "some"), ("adapter", "glue"), ("adapter_options", 3),
    ],
)  # fmt: skip
def test_a_value_outside_the_bounds_is_one_clear_error(name, value):
    with pytest.raises(UsageError, match=f"{name} cannot be") as error:
        TrainingConfig().override(**{name: value})
    assert error.value.hint


def test_checks_across_fields():
    with pytest.raises(UsageError, match="nothing to search"):
        TrainingConfig().override(search_steps=3)
    with pytest.raises(UsageError, match="rank"):
        TrainingConfig().override(adapter_options={"rank": 3})
    with pytest.raises(UsageError, match="trains no adapter"):
        TrainingConfig().override(train="all", adapter="lora")


def test_none_overrides_nothing():
    config = TrainingConfig(steps=7)
    assert config.override(steps=None, split=None) == config
    assert config.override(steps=0).steps == 0


def test_a_config_is_stored_by_the_names_of_its_fields():
    stored = json.loads(json.dumps(TrainingConfig().to_dict()))
    assert list(stored) == [name for name in names() if name != "time_limit"], (
        "files without one are as before"
    )
    assert list(TrainingConfig(time_limit=9.0).to_dict()) == names()
    assert TrainingConfig(**stored) == TrainingConfig()
    assert hash(TrainingConfig(adapter_options={"rank": 2})) == hash(TrainingConfig())


def test_the_command_has_an_option_for_every_setting():
    command: Any = typer.main.get_command(command_line())
    options = {option.name: option for option in command.commands["train"].params}
    kinds = {int: click.INT, float: click.FLOAT, str: click.STRING}
    for setting in settings():
        option = options[setting.name]
        assert option.opts == ["--" + setting.name.replace("_", "-")]
        assert option.help.startswith(setting.help)
        assert option.default is None, "the preset decides"
        assert setting.kind is Mapping or option.type is kinds[setting.kind]
