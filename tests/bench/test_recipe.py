"""Recipes: their runs, what identifies a run, and clear errors."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filmtransfer import FewShotClassifier
from filmtransfer.backbones import backbone_facts
from filmtransfer.bench import figures, html_page, tables
from filmtransfer.bench.datasets import DATASETS, VTAB
from filmtransfer.bench.methods import METHODS
from filmtransfer.bench.recipe import (
    ESTIMATOR_KEYS,
    EXECUTION_KEYS,
    KEYS,
    Run,
    load_recipe,
    parse_recipe,
    recipe_names,
)
from filmtransfer.errors import InputError, UsageError
from filmtransfer.federated import plan
from filmtransfer.training.presets import PRESETS

OWN = """# fit bench run own.toml
#
# About it.

[experiment]
name = "own"

[sweep]
dataset = ["cifar10"]
method = ["BiT", "FiT-LDA"]
seed = [0, 1]

[settings]
shots = 5
"""


def settings_of(text: str, method: str) -> dict:
    return next(
        dict(r.settings) for r in parse_recipe(text, "own.toml").runs() if r.settings["method"] == method
    )


def test_there_is_a_recipe_for_each_experiment_of_the_paper():
    assert {"few_shot", "few_shot_small", "splits", "splits_small", "vtab", "vtab_v2m", "adapters"} <= {
        *recipe_names()
    }


@pytest.mark.parametrize("name", recipe_names())
def test_a_packaged_recipe_has_only_known_names(name):
    recipe = load_recipe(name)
    runs = recipe.runs()
    assert recipe.name == name
    assert runs
    assert len({run.key for run in runs}) == len(runs)
    assert recipe.about.splitlines()[0].startswith(f"fit bench run {name} --data-root ")
    assert "Hardware" in recipe.about
    assert "ublished" in recipe.about or "the paper prints no numbers" in recipe.about
    for s in (run.settings for run in runs):
        assert s["dataset"] in {*DATASETS, "quickdraw"}  # the last has to be made by hand, as its recipe says
        assert s.get("protocol") != "vtab" or s["dataset"] in VTAB
        assert s["method"] in METHODS or s["method"] in recipe.methods
        assert s["preset"] in (plan.PRESETS if s.get("protocol") == "federated" else PRESETS)
        assert backbone_facts(s["backbone"]).parameters > 1e6
        assert s.keys() <= KEYS


@pytest.mark.parametrize("name", recipe_names())
def test_the_estimator_accepts_the_settings_of_a_packaged_recipe(name):
    seen = {
        str({k: v for k, v in r.settings.items() if k in ESTIMATOR_KEYS}): r for r in load_recipe(name).runs()
    }
    for run in seen.values():
        if run.settings.get("protocol") == "federated":
            continue  # goes by a plan, which has tests of its own
        FewShotClassifier(**{k: v for k, v in run.settings.items() if k in ESTIMATOR_KEYS}).training_config()


def test_every_table_and_figure_has_a_function_and_a_title():
    assert {*figures.FIGURES} == {*html_page.FIGURE_TITLES}
    used = [load_recipe(name) for name in recipe_names()]
    assert {recipe.table for recipe in used} == {*tables.TABLES}
    assert {figure for recipe in used for figure in recipe.figures} == {*figures.FIGURES}


# A run is known by its settings.

VALUES = st.one_of(st.integers(), st.booleans(), st.text(max_size=8), st.floats(allow_nan=False))
NAMES = sorted(KEYS - {"preset"})
SETTINGS = st.dictionaries(st.sampled_from(NAMES), VALUES, min_size=1)


@settings(deadline=None)
@given(SETTINGS, st.randoms())
def test_the_order_of_settings_does_not_matter(chosen, random):
    order = list(chosen)
    random.shuffle(order)
    assert Run({name: chosen[name] for name in order}).key == Run(chosen).key


@settings(deadline=None)
@given(SETTINGS, st.sampled_from([name for name in NAMES if name != "weights"]), VALUES)
def test_a_key_changes_only_with_identifying_settings(chosen, name, value):
    same = name in EXECUTION_KEYS or repr(chosen.get(name)) == repr(value)
    assert (Run(chosen).key == Run({**chosen, name: value}).key) is same


def test_weights_are_identified_by_file_name_without_folder():
    here, there, other = (Run({"weights": w}).key for w in ("/here/a.npz", "there/a.npz", "/here/b.npz"))
    assert here == there != other
    assert Run({}).key != here
    assert Run({"device": "cuda", "micro_batch": 3, "cache_mb": 0}).key == Run({}).key


def test_keys_are_stable():
    """Stored results are found by their key: if this fails, every sweep starts from the beginning."""
    chosen = {"dataset": "cifar10", "method": "FiT-LDA", "seed": 0, "shots": 5, "preset": "paper"}
    assert Run(chosen).key == "8268be62d01bfcd6"


def test_the_values_of_a_preset_identify_a_run(monkeypatch):
    before = {name: Run({"preset": name}).key for name in PRESETS}
    assert len({*before.values()}) == len(PRESETS)
    assert Run({}).key != before["fast"], "the default preset identifies a run too"
    monkeypatch.setitem(PRESETS, "paper", replace(PRESETS["paper"], steps=401))
    after = {name: Run({"preset": name}).key for name in PRESETS}
    assert [name for name in PRESETS if before[name] != after[name]] == ["paper"]
    with pytest.raises(UsageError, match="preset cannot be 'slow'"):
        parse_recipe(OWN + 'preset = "slow"\n', "own.toml").runs()


def test_the_same_settings_in_two_recipes_are_one_run():
    other = (
        OWN.replace('"own"', '"another"')
        .replace("shots = 5", "")
        .replace("seed = [0, 1]", "seed = [0, 1]\nshots = [5]")
    )
    assert {run.key for run in parse_recipe(OWN, "a").runs()} == {
        run.key for run in parse_recipe(other, "b").runs()
    }


def test_a_point_that_occurs_twice_is_run_once():
    assert len(parse_recipe(OWN.replace("[0, 1]", "[0, 1, 0]"), "own.toml").runs()) == 4


def test_one_seed_is_complete_before_the_next_begins():
    runs = parse_recipe(OWN, "own.toml").runs()
    assert [run.settings["seed"] for run in runs] == [0, 0, 1, 1]
    assert str(runs[0]) == "cifar10 5 shots BiT seed 0"


def test_precedence_of_settings():
    """Settings, then the method, then the recipe's settings of the method, then the sweep."""
    assert settings_of(OWN, "BiT")["preset"] == METHODS["BiT"]["preset"]
    text = OWN + 'preset = "paper"\nsteps = 1\n'
    assert settings_of(text, "BiT")["preset"] == "bit"
    assert settings_of(text, "FiT-LDA")["preset"] == "paper"
    text += '[methods."BiT"]\npreset = "adapters"\nsteps = 2\n'
    assert settings_of(text, "BiT")["preset"] == "adapters"
    assert settings_of(text, "BiT")["steps"] == 2
    assert settings_of(text, "FiT-LDA")["steps"] == 1
    text = text.replace("[sweep]", "[sweep]\nsteps = [3]")
    assert settings_of(text, "BiT")["steps"] == settings_of(text, "FiT-LDA")["steps"] == 3


def test_a_custom_method():
    text = OWN.replace('"FiT-LDA"', '"Mine"') + '[methods."Mine"]\nhead = "qda"\n'
    assert settings_of(text, "Mine")["head"] == "qda"


def test_the_protocol_of_an_experiment_is_a_setting_of_its_runs():
    text = OWN.replace('name = "own"', 'name = "own"\nprotocol = "vtab"')
    assert settings_of(text, "BiT")["protocol"] == "vtab"


def test_the_opening_comment_is_kept():
    assert parse_recipe(OWN, "own.toml").about == "fit bench run own.toml\n\nAbout it."
    assert parse_recipe(OWN[OWN.index("[experiment]") :], "own.toml").about == ""


MISTAKES = {
    "not TOML": ("[experiment\n", InputError, "own.toml is not a TOML file"),
    "a table nobody reads": (OWN + "[extra]\n", UsageError, "unknown key 'extra'"),
    "in experiment": (OWN.replace('name = "own"', 'name = "own"\nauthor = "me"'), UsageError, "'author'"),
    "in sweep": (OWN.replace("seed =", "sead ="), UsageError, r"\[sweep\] has an unknown key 'sead'"),
    "in settings": (OWN + "shot = 3\n", UsageError, r"\[settings\] has an unknown key 'shot'"),
    "in a method": (OWN + '[methods."BiT"]\nrate = 1\n', UsageError, r'\[methods."BiT"\] has .* \'rate\''),
    "sweep over no list": (OWN.replace("[0, 1]", "3"), UsageError, "seed has to be a list"),
    "sweep over nothing": (OWN.replace("[0, 1]", "[]"), UsageError, "seed has to be a list"),
    "unknown method": (OWN.replace('"BiT"', '"BYT"'), UsageError, "method cannot be 'BYT'.* FiT-QDA"),
    "method that is a list": (OWN.replace('"BiT"', '["BiT"]'), UsageError, "method cannot be"),
    "unknown table": (OWN.replace('name = "own"', 'name = "own"\ntable = "t"'), UsageError, "cannot be 't'"),
    "unknown figure": (
        OWN.replace('name = "own"', 'name = "own"\nfigures = ["pie"]'), UsageError, "cannot be 'pie'.* size"
    ),
    "no name": (OWN.replace('name = "own"', ""), UsageError, "lacks a name"),
    "no seed": (OWN.replace("seed = [0, 1]", ""), UsageError, "lacks seed"),
    "no sweep at all": ('[experiment]\nname = "x"\n', UsageError, "lacks dataset, method, seed"),
    "empty": ("", UsageError, "lacks dataset"),
    "a word for a table": ('sweep = "all"\n', UsageError, r"\[sweep\] cannot be 'all'"),
    "a number for methods": ("methods = 3\n" + OWN, UsageError, "methods cannot be 3"),
    "a number for a method": (OWN + "[methods]\nBiT = 3\n", UsageError, r'\[methods."BiT"\] cannot be 3'),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_an_invalid_recipe_is_one_clear_error(name):
    text, kind, says = MISTAKES[name]
    with pytest.raises(kind, match=says) as caught:
        parse_recipe(text, "own.toml")
    assert "\n" not in str(caught.value)
    assert "own.toml" in caught.value.message
    assert caught.value.hint or kind is InputError


def test_a_recipe_by_name_or_file(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text(OWN)
    assert load_recipe(str(file)) == parse_recipe(OWN, "elsewhere")
    with pytest.raises(UsageError, match="few_shot_small"):
        load_recipe("fewshot")
    with pytest.raises(InputError, match=re.escape(str(tmp_path / "no.toml"))):
        load_recipe(str(tmp_path / "no.toml"))
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="UTF-8"):
        load_recipe(str(file))


def test_settings_of_the_command_line():
    recipe = parse_recipe(OWN, "own.toml")
    chosen = recipe.with_settings(seed=4, shots=1, backbone="resnet18", method=["FiT-QDA"])
    assert [dict(run.settings) for run in chosen.runs()] == [
        {
            "dataset": "cifar10",
            "method": "FiT-QDA",
            "head": "qda",
            "seed": 4,
            "shots": 1,
            "backbone": "resnet18",
        }
    ]
    assert len(recipe.runs()) == 4, "the recipe itself is as it was"
    assert [r.settings["seed"] for r in recipe.with_settings(seed=[7, 8], method="BiT").runs()] == [7, 8]


def test_settings_of_a_method_take_precedence():
    recipe = parse_recipe(OWN + '[methods."BiT"]\nlearning_rate = 1.0\n', "own.toml")
    rates = {
        r.settings["method"]: r.settings["learning_rate"]
        for r in recipe.with_settings(learning_rate=2.0).runs()
    }
    assert rates == {"BiT": 1.0, "FiT-LDA": 2.0}


def test_datasets_methods_and_seeds_can_be_chosen_where_the_recipe_has_one():
    text = OWN.replace('dataset = ["cifar10"]\n', "").replace("shots = 5", 'shots = 5\ndataset = "cifar10"')
    runs = (
        parse_recipe(text, "own.toml").with_settings(dataset=["svhn", "dtd"], method=["BiT"], seed=[0]).runs()
    )
    assert [run.settings["dataset"] for run in runs] == ["svhn", "dtd"]


@pytest.mark.parametrize(
    ("chosen", "says"),
    [({"speed": 9}, "'speed'"), ({"method": "BYT"}, "'BYT'"), ({"method": ["BiT", "BYT"]}, "'BYT'"), ({"seed": []}, "seed")],
)  # fmt: skip
def test_unknown_settings(chosen, says):
    with pytest.raises(UsageError, match=says):
        parse_recipe(OWN, "own.toml").with_settings(**chosen)
