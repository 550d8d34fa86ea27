"""A recipe: one experiment of the paper as a TOML file, and its runs.

``[experiment]`` names the experiment and its table; every combination of the lists in ``[sweep]`` is a run; ``[settings]``
apply to all runs, and ``[methods."BiT"]`` to one method, where they take precedence. A run is identified by its settings:
the same settings have the same key in every recipe.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import InputError, UsageError, check_choice, invalid_choice
from ..training.config import TrainingConfig, names
from ..training.presets import preset
from . import federated_settings
from .methods import METHODS
from .rows import RunSettings, quantity
from .run_settings import check_run_settings, check_training_settings

EXPERIMENT_KEYS = {"name", "title", "table", "figures", "protocol"}
# The settings of a run: the data, the method, and the parameters of the estimator.
DATA_KEYS = {"dataset", "shots", "seed", "test_images", "data_split", "protocol", "curve"}
ESTIMATOR_KEYS = {
    "backbone",
    "weights",
    "head",
    "head_options",
    "preset",
    "prior",
    "device",
    "precision",
    *names(),
}
LOCAL_KEYS = DATA_KEYS | ESTIMATOR_KEYS | {"method"}  # of runs that are not federated
KEYS = LOCAL_KEYS | federated_settings.FEDERATED_KEYS
REQUIRED_KEYS = ("dataset", "method", "seed")
BACKBONE = "efficientnet_lite0"  # the default
# Settings that do not identify a run: where and how fast it is computed. A CNAPs file is identified by its digest.
EXECUTION_KEYS = {"device", "micro_batch", "cache_mb", "timeout", "cnaps"}


@dataclass(frozen=True)
class Run:
    """One training and evaluation, given by its settings."""

    settings: RunSettings

    def identity(self) -> dict[str, Any]:
        """Return what identifies the run: its settings, and the current values of its preset."""
        federated = federated_settings.is_federated(self.settings)
        chosen = federated_settings.identity(self.settings) if federated else self.settings
        identity = {k: v for k, v in chosen.items() if k not in EXECUTION_KEYS}
        if "weights" in identity:
            identity["weights"] = Path(str(identity["weights"])).name  # without its folder
        if federated:
            return identity
        config = preset(str(self.settings.get("preset", "fast"))).to_dict()
        default = TrainingConfig(steps=None, learning_rate=0.0).to_dict()
        values = {k: v for k, v in config.items() if v != default[k] and k not in EXECUTION_KEYS}
        return identity | {"preset_says": values}  # without defaults, so that a new setting changes no key

    @property
    def key(self) -> str:
        """A digest of the identity, independent of the order of the settings."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        s = self.settings
        if federated_settings.is_federated(s):
            return federated_settings.describe_run(s)
        if is_orbit(s):
            return f"{s['user']} task {s['task']} {s['videos']} {s['method']}"
        shots = f" {quantity(s['shots'], 'shot')}" if "shots" in s else ""
        split = f" {s['split']}" if "split" in s else ""
        return f"{s['dataset']}{shots} {s['method']}{split} seed {s['seed']}"


@dataclass(frozen=True)
class Recipe:
    """An experiment: settings, the values to sweep over, and the tables and figures to make."""

    name: str
    title: str
    table: str
    sweep: Mapping[str, list[Any]]
    settings: RunSettings = field(default_factory=dict)
    methods: Mapping[str, RunSettings] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    about: str = ""  # the comment at the beginning of the file

    def runs(self, *, check: bool = True) -> list[Run]:
        """Return all combinations, seed by seed, so that a table of one seed is complete before the next begins.

        Their values are checked, which needs torch, unless they are only counted.
        """
        order = sorted(self.sweep, key=lambda name: (name != "seed", list(self.sweep).index(name)))
        runs = []
        for values in itertools.product(*(self.sweep[name] for name in order)):
            point = dict(zip(order, values, strict=True))
            method = str(point.get("method", self.settings.get("method")))
            own = {**METHODS.get(method, {}), **self.methods.get(method, {})}
            chosen = {"backbone": BACKBONE, **self.settings, **own, **point}
            federated_settings.validate_settings(chosen, LOCAL_KEYS)
            if check:
                check_run_settings(chosen)
            runs.append(Run(chosen))
        return list({run.key: run for run in runs}.values())

    def with_settings(self, **chosen: Any) -> Recipe:
        """Return the recipe with settings of the command line, which replace the values of a sweep.

        Settings of a method (a smaller learning rate for all weights) keep their precedence.
        """
        unknown = chosen.keys() - KEYS
        if unknown:
            raise invalid_choice("A setting", sorted(unknown)[0], sorted(KEYS))
        sweep = dict(self.sweep)
        for name, value in chosen.items():
            if name in sweep or name in REQUIRED_KEYS:
                sweep[name] = value if isinstance(value, list) else [value]
                if not sweep[name]:
                    raise UsageError(f"{name} has no value.", f"Write {name}=[1, 2], for example.")
        _check_methods(sweep, self.settings, self.methods, "The method")
        check_training_settings(chosen, sweep)
        fixed = {k: v for k, v in chosen.items() if k not in sweep}
        return Recipe(**{**vars(self), "sweep": sweep, "settings": {**self.settings, **fixed}})


def is_orbit(settings: RunSettings) -> bool:
    """Return whether a run is a task of ORBIT (bench/orbit/), which is not part of a recipe."""
    return settings.get("protocol") == "orbit"


def recipe_names() -> list[str]:
    """Return the names of the recipes of the package."""
    paths = (p.name for p in files(__package__).joinpath("recipes").iterdir())
    return sorted(name.removesuffix(".toml") for name in paths if name.endswith(".toml"))


def load_recipe(name: str) -> Recipe:
    """Load a recipe by name, or from a .toml file."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError(
                f"There is no recipe file {path}.", f"Known recipes: {', '.join(recipe_names())}."
            )
        try:
            return parse_recipe(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path} cannot be read ({error}).", "A recipe is a text file in UTF-8."
            ) from None
    if name not in recipe_names():
        raise invalid_choice("The recipe", name, [*recipe_names(), "a .toml file of your own"])
    text = files(__package__).joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return parse_recipe(text, name)


def parse_recipe(text: str, source: str) -> Recipe:
    """Parse the text of a recipe; an unknown key is an error."""
    from .figures import FIGURES
    from .tables import TABLES

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not a TOML file ({error}).") from None
    _check_keys(content, {"experiment", "sweep", "settings", "methods"}, f"{source}: table")
    experiment, sweep = content.get("experiment", {}), content.get("sweep", {})
    settings, methods = content.get("settings", {}), content.get("methods", {})
    _check_keys(experiment, EXPERIMENT_KEYS, f"{source}: [experiment]")
    _check_keys(sweep, KEYS, f"{source}: [sweep]")
    _check_keys(settings, KEYS, f"{source}: [settings]")
    if not isinstance(methods, dict):
        raise UsageError(f"{source}: methods cannot be {methods!r}.", 'Write [methods."BiT"], for example.')
    for method, own in methods.items():
        _check_keys(own, KEYS, f'{source}: [methods."{method}"]')
    for name, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise UsageError(
                f"{source}: [sweep] {name} has to be a list of values.",
                "Write seed = [0, 1, 2], for example.",
            )
    missing = [k for k in REQUIRED_KEYS if k not in sweep and k not in settings]
    if missing or "name" not in experiment:
        raise UsageError(
            f"{source} lacks {', '.join(missing) or 'a name'}.",
            "A recipe has [experiment] name and, in [sweep] or [settings], dataset, method and seed.",
        )
    _check_methods(sweep, settings, methods, f"{source}: the method")
    check_choice(f"{source}: the table", table := experiment.get("table", "few_shot"), [*TABLES])
    figures = tuple(experiment.get("figures", ()))
    for figure in figures:
        check_choice(f"{source}: the figure", figure, [*FIGURES])
    about = "\n".join(
        line.removeprefix("#").strip()
        for line in itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    )
    return Recipe(
        name=str(experiment["name"]),
        title=str(experiment.get("title", experiment["name"])),
        table=table,
        sweep=sweep,
        settings={**settings, **({"protocol": experiment["protocol"]} if "protocol" in experiment else {})},
        methods=methods,
        figures=figures,
        about=about,
    )


def _check_methods(
    sweep: Mapping[str, list[Any]], settings: RunSettings, methods: Mapping[str, RunSettings], what: str
) -> None:
    for method in sweep.get("method", [settings.get("method")]):
        if str(method) not in METHODS and str(method) not in methods:
            raise invalid_choice(what, method, [*METHODS, 'or one with its own [methods."…"]'])


def _check_keys(table: object, allowed: set[str], where: str) -> None:
    if not isinstance(table, dict):
        raise UsageError(f"{where} cannot be {table!r}.", f"It is a table of: {', '.join(sorted(allowed))}.")
    for name in table:
        if name not in allowed:
            raise UsageError(f"{where} has an unknown key {name!r}.", f"Known: {', '.join(sorted(allowed))}.")
