"""The page on the architecture: its walks exist and go downwards, its map of the files is up to date."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
from scripts.make_architecture import PACKAGE, ROOT, TARGET, first_sentence, page

WALKS = re.findall(r"^### (`.*?`)\n\n((?:\d+\. .*\n)+)", TARGET.read_text("utf-8"), re.M)
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
LAYERS = next(c["layers"] for c in CONTRACTS if c["type"] == "layers")


def layer_of(file: str) -> int:
    package = "filmtransfer." + Path(file).parts[0].removesuffix(".py")
    return next(i for i, layer in enumerate(LAYERS) if package in layer.split(" | "))


def functions(file: str) -> set[str]:
    nodes = ast.walk(ast.parse((PACKAGE / file).read_text("utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_there_are_two_walks():
    assert len(WALKS) == 2


@pytest.mark.parametrize(("name", "lines"), WALKS)
def test_a_walk_goes_downwards_and_visits_each_function_once(name, lines):
    steps = re.findall(r"^\d+\. `(.*?)` `(.*?)`", lines, re.M)
    assert len(steps) == len(set(steps)) == lines.count("\n"), name
    for file, function in steps:
        assert function in functions(file), f"{file} has no function {function}"
    layers = [layer_of(file) for file, _ in steps]
    assert layers == sorted(layers), f"{name} goes upwards"


def test_the_map_is_up_to_date():
    assert TARGET.read_text("utf-8") == page(), "run 'make docs'"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Privacy (McMahan et al. 2018). More of it.", "Privacy (McMahan et al. 2018)"),
        ("One thing. `two` is another.", "One thing"),
        ("One paragraph\n\nAnother.", "One paragraph"),
        ("Files (.safetensors). They end here.", "Files (.safetensors)"),
    ],
)
def test_the_first_sentence_ends_before_a_capital_letter_or_a_name(tmp_path, text, sentence):
    module = tmp_path / "module.py"
    module.write_text(f'"""{text}"""')
    assert first_sentence(module) == sentence


def test_every_module_says_what_it_is():
    silent = [
        str(file) for file in PACKAGE.rglob("*.py") if not ast.get_docstring(ast.parse(file.read_text()))
    ]
    assert not silent
