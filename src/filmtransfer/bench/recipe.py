"""A recipe: one experiment of the paper as a TOML file, and the runs it stands for.

``[experiment]`` says what it is and which table it makes; every combination of the lists in ``[sweep]`` is a run;
``[settings]`` holds for all of them but where a method says otherwise, ``[methods."BiT"]`` for one method. A run is known by its settings:
the same settings have the same key, in whatever recipe they stand.
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

from ..errors import InputError, UsageError, invalid_choice
from ..training.config import TrainingConfig, names
from ..training.presets import preset
from . import federations
from .methods import METHODS

TABLES = (
    "few_shot", "vtab", "splits", "bodies", "released", "adapters",
    "federated", "federated_algorithms", "federated_methods",
)  # fmt: skip
FIGURES = ("size", "shots", "curves", "film", "bodies", "splits", "communication", "spread")
EXPERIMENT = {"name", "title", "table", "figures", "protocol"}
# What decides a run: the data, the method, and every choice of the estimator.
DATA = {"dataset", "shots", "seed", "test_images", "data_split", "protocol", "curve"}
CHOICES = {"backbone", "weights", "head", "head_options", "preset", "prior", "device", "precision", *names()}
OTHERS = DATA | CHOICES | {"method"}  # of all but federated runs
KEYS = OTHERS | federations.FIELDS
ALWAYS = ("dataset", "method", "seed")  # every run has them
BACKBONE = "efficientnet_lite0"  # where a recipe names none
# Where and how fast it is computed does not make it another run.
BESIDE = {"device", "micro_batch", "cache_mb", "timeout", "cnaps"}  # a file is known by its digest


@dataclass(frozen=True)
class Run:
    """One training and evaluation, by its settings."""

    settings: Mapping[str, Any]

    def identity(self) -> dict[str, Any]:
        """What makes it this run and no other: its settings, and what its preset says today."""
        federated = federations.is_federated(self.settings)
        chosen = federations.decides(self.settings) if federated else self.settings
        found = {k: v for k, v in chosen.items() if k not in BESIDE}
        if "weights" in found:
            found["weights"] = Path(str(found["weights"])).name  # the file, not where it lies
        if federated:
            return found
        said = preset(str(self.settings.get("preset", "fast"))).to_dict()
        plain = TrainingConfig(steps=None, learning_rate=0.0).to_dict()
        says = {k: v for k, v in said.items() if v != plain[k] and k not in BESIDE}
        return found | {"preset_says": says}  # without defaults: a new setting leaves old keys alone

    @property
    def key(self) -> str:
        """The same for the same settings, whatever their order."""
        return hashlib.sha256(json.dumps(self.identity(), sort_keys=True).encode()).hexdigest()[:16]

    def __str__(self) -> str:
        s = self.settings
        if federations.is_federated(s):
            return federations.name(s)
        if is_orbit(s):
            return f"{s['user']} task {s['task']} {s['videos']} {s['method']}"
        shots = f" {s['shots']} shots" if "shots" in s else ""
        split = f" {s['split']}" if "split" in s else ""
        return f"{s['dataset']}{shots} {s['method']}{split} seed {s['seed']}"


@dataclass(frozen=True)
class Recipe:
    """An experiment."""

    name: str
    title: str
    table: str
    sweep: Mapping[str, list[Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    about: str = ""  # the comment that the file opens with

    def runs(self) -> list[Run]:
        """All combinations, seed by seed, so that a table of one seed is whole before the next begins."""
        order = sorted(self.sweep, key=lambda name: (name != "seed", list(self.sweep).index(name)))
        found = []
        for values in itertools.product(*(self.sweep[name] for name in order)):
            point = dict(zip(order, values, strict=True))
            method = str(point.get("method", self.settings.get("method")))
            own = {**METHODS.get(method, {}), **self.methods.get(method, {})}
            chosen = {"backbone": BACKBONE, **self.settings, **own, **point}
            federations.check(chosen, OTHERS)
            found.append(Run(chosen))
        return list({run.key: run for run in found}.values())

    def with_choices(self, **chosen: Any) -> Recipe:
        """With settings of the command line; a setting that the recipe sweeps over becomes that one value.

        What a method sets for itself (a smaller rate for all weights) stays as it is.
        """
        unknown = chosen.keys() - KEYS
        if unknown:
            raise invalid_choice("A setting", sorted(unknown)[0], sorted(KEYS))
        sweep = dict(self.sweep)
        for name, value in chosen.items():
            if name in sweep or name in ALWAYS:
                sweep[name] = value if isinstance(value, list) else [value]
                if not sweep[name]:
                    raise UsageError(f"{name} has no value.", f"As in {name}=[1, 2].")
        _methods_known(sweep, self.settings, self.methods, "The method")
        fixed = {k: v for k, v in chosen.items() if k not in sweep}
        return Recipe(**{**vars(self), "sweep": sweep, "settings": {**self.settings, **fixed}})


def is_orbit(settings: Mapping[str, Any]) -> bool:
    """Whether it is a task of ORBIT (bench/orbit/), which no recipe stands for."""
    return settings.get("protocol") == "orbit"


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    found = (p.name for p in files(__package__).joinpath("recipes").iterdir())
    return sorted(name.removesuffix(".toml") for name in found if name.endswith(".toml"))


def load_recipe(name: str) -> Recipe:
    """A recipe by name, or from a file of one's own."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError(
                f"There is no recipe file {path}.", f"Known recipes: {', '.join(recipe_names())}."
            )
        try:
            return parse_recipe(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read ({error}).", "A recipe is a UTF-8 text.") from None
    if name not in recipe_names():
        raise invalid_choice("The recipe", name, [*recipe_names(), "a .toml file of your own"])
    text = files(__package__).joinpath("recipes", f"{name}.toml").read_text(encoding="utf-8")
    return parse_recipe(text, name)


def parse_recipe(text: str, source: str) -> Recipe:
    """A recipe from its text; a key that nobody reads is a mistake and is named."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not a TOML file ({error}).") from None
    _known(content, {"experiment", "sweep", "settings", "methods"}, f"{source}: table")
    experiment, sweep = content.get("experiment", {}), content.get("sweep", {})
    settings, methods = content.get("settings", {}), content.get("methods", {})
    _known(experiment, EXPERIMENT, f"{source}: [experiment]")
    _known(sweep, KEYS, f"{source}: [sweep]")
    _known(settings, KEYS, f"{source}: [settings]")
    if not isinstance(methods, dict):
        raise UsageError(f"{source}: methods cannot be {methods!r}.", 'As in [methods."BiT"].')
    for method, own in methods.items():
        _known(own, KEYS, f'{source}: [methods."{method}"]')
    for name, values in sweep.items():
        if not isinstance(values, list) or not values:
            raise UsageError(
                f"{source}: [sweep] {name} has to be a list of values.", "As in seed = [0, 1, 2]."
            )
    missing = [k for k in ALWAYS if k not in sweep and k not in settings]
    if missing or "name" not in experiment:
        raise UsageError(
            f"{source} does not say {', '.join(missing) or 'its name'}.",
            "A recipe has [experiment] name and, in [sweep] or [settings], dataset, method and seed.",
        )
    _methods_known(sweep, settings, methods, f"{source}: the method")
    if (table := experiment.get("table", "few_shot")) not in TABLES:
        raise invalid_choice(f"{source}: the table", table, TABLES)
    figures = tuple(experiment.get("figures", ()))
    for figure in figures:
        if figure not in FIGURES:
            raise invalid_choice(f"{source}: the figure", figure, FIGURES)
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


def _methods_known(
    sweep: Mapping[str, Any], settings: Mapping[str, Any], methods: Mapping[str, Any], what: str
) -> None:
    for method in sweep.get("method", [settings.get("method")]):
        if str(method) not in METHODS and str(method) not in methods:
            raise invalid_choice(what, method, [*METHODS, 'or one with its own [methods."…"]'])


def _known(found: Any, allowed: set[str], where: str) -> None:
    if not isinstance(found, dict):
        raise UsageError(f"{where} cannot be {found!r}.", f"It is a table of: {', '.join(sorted(allowed))}.")
    for name in found:
        if name not in allowed:
            raise UsageError(f"{where} has an unknown key {name!r}.", f"Known: {', '.join(sorted(allowed))}.")
