"""Write docs/reference.md from the code, and insert the measured tables into the pages that show them.

make docs
"""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "100"

import click
import typer

import filmtransfer
from filmtransfer import heads
from filmtransfer.adapters import ADAPTERS
from filmtransfer.backbones import CATALOGUE, backbone_facts
from filmtransfer.cli.app import command_line
from filmtransfer.training.config import settings
from filmtransfer.training.presets import PRESETS

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs/reference.md"


def _commands(name: str, group: Any) -> list[tuple[str, Any]]:
    """Return every command with its full name, those of a group after the group."""
    commands: list[tuple[str, Any]] = []
    for word, command in group.commands.items():
        commands.append((f"{name} {word}", command))
        if hasattr(command, "commands"):
            commands += _commands(f"{name} {word}", command)
    return commands


def reference() -> str:
    """Return the text of docs/reference.md."""
    parts = [
        "# Reference",
        "Generated from the code by `make docs`; a test checks that it is up to date.",
        "## The command",
        "Exit codes: 0 success, 1 internal error, 2 invalid usage, 3 invalid input, 4 invalid file, 5 not available, "
        "130 interrupted. `--debug` (or `FIT_DEBUG=1`) shows the traceback of an error.",
    ]
    for name, command in _commands("fit", typer.main.get_command(command_line())):
        context = click.Context(command, info_name=name, max_content_width=100, terminal_width=100)
        parts += [f"### {name}", f"```text\n{command.get_help(context).strip()}\n```"]
    parts.append("## Training settings")
    parts.append(
        "Fields of `TrainingConfig`: parameters of `FewShotClassifier`, options of `fit train`, keys of recipes and "
        "of `--set`. The default is that of the dataclass; a preset has its own values."
    )
    rows: list[list[object]] = []
    for setting in settings():
        none = f"; None: {setting.none}" if setting.none else ""
        rows.append([setting.name, setting.default, f"{setting.allowed()}{none}", setting.help])
    parts.append(_table(["setting", "default", "allowed", "meaning"], rows))
    parts.append("## Presets")
    presets = {name: preset.to_dict() for name, preset in PRESETS.items()}
    parts.append(
        _table(["preset", *presets["fast"]], [[name, *values.values()] for name, values in presets.items()])
    )
    parts.append("## Backbones")
    rows = []
    for name, record in CATALOGUE.items():
        facts = backbone_facts(name)
        counts = [f"{n:,}" for n in (facts.parameters, facts.features, len(facts.site_names))]
        rows.append([name, record.timm_name, *counts, f"{facts.film_parameters:,}", record.licence])
    columns = ["name", "timm model", "parameters", "features", "FiLM sites", "FiLM parameters", "licence"]
    parts.append(_table(columns, rows))
    parts.append("## Adapters")
    rows = [
        [name, field.name, field.default, field.metadata["help"]]
        for name, adapter in ADAPTERS.items()
        for field in dataclasses.fields(adapter.options)
    ]
    parts += ["FiLM has no options.", _table(["adapter", "option", "default", "meaning"], rows)]
    parts.append("## Python")
    public = {
        f"filmtransfer.{n}": getattr(filmtransfer, n) for n in filmtransfer.__all__ if n != "__version__"
    }
    public |= {
        f"filmtransfer.heads.{n}": getattr(heads, n)
        for n in ("ProtoNets", "LDA", "QDA", "Linear", "Statistics")
    }
    for name, item in public.items():
        parts += [f"### {name}", _describe(item)]
    return "\n\n".join(parts) + "\n"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:]])


def _describe(item: Any) -> str:
    lines = [f"```python\n{item.__name__}{_signature(item)}\n```" if not issubclass(item, Exception) else ""]
    lines.append(f"```text\n{inspect.cleandoc(item.__doc__ or '')}\n```")
    seen: set[str] = set()
    for base in item.__mro__:
        if not base.__module__.startswith("filmtransfer"):
            continue
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            if name.startswith("_") or name in seen or not inspect.isfunction(function):
                continue
            seen.add(name)
            if about := inspect.getdoc(getattr(item, name)):  # or that of the method it overrides
                lines.append(f"- `{name}{_signature(function)}`: {about.splitlines()[0]}")
    return "\n".join(line for line in lines if line)


def _signature(item: Any) -> str:
    try:
        return str(inspect.signature(item))
    except (TypeError, ValueError):
        return "(…)"


def insert_tables(page: Path) -> None:
    """Insert benchmarks/results/name.md between <!-- name --> and <!-- /name --> of a page."""
    text = page.read_text()
    for name in re.findall(r"<!-- ([\w/]+) -->", text):
        result = ROOT / f"benchmarks/results/{name}.md"
        if name == "limits":  # make_budgets.py
            continue
        section = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)

        def insert(match: re.Match[str], result: Path = result) -> str:
            return match[1] + result.read_text() + match[2]

        text = section.sub(insert, text)
    page.write_text(text)


if __name__ == "__main__":
    TARGET.write_text(reference())
    for page in (
        "README.md",
        "docs/presets.md",
        "docs/performance.md",
        "docs/runtime.md",
        "docs/trust.md",
        "docs/scale.md",
        "docs/export.md",
        "docs/orbit.md",
        "docs/benchmarks.md",
        "docs/federated.md",
        "docs/security.md",
    ):
        insert_tables(ROOT / page)
    print(f"wrote {TARGET.name} and the measured tables")
