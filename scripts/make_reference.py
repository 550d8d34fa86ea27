"""Write docs/reference.md from the code, and the measured tables into the pages that show them.

make docs
"""

from __future__ import annotations

import inspect
import os
import re
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "100"

import click
import typer

import filmtransfer
from filmtransfer import heads
from filmtransfer.backbones import CATALOGUE, backbone_facts
from filmtransfer.cli.app import app
from filmtransfer.training.config import settings
from filmtransfer.training.presets import PRESETS

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs/reference.md"


def _verbs(name: str, command: Any) -> list[tuple[str, Any]]:
    """Every verb by its full name, those of a group after it."""
    found: list[tuple[str, Any]] = []
    for word, verb in command.commands.items():
        found.append((f"{name} {word}", verb))
        if hasattr(verb, "commands"):
            found += _verbs(f"{name} {word}", verb)
    return found


def reference() -> str:
    parts = [
        "# Reference",
        "Made from the code by `make docs`; a test keeps it true.",
        "## The command",
        "Exit codes: 0 good, 1 a bug of ours, 2 bad usage, 3 bad input, 4 bad file, 5 not available here, "
        "130 interrupted. `--debug` (or `FIT_DEBUG=1`) shows the traceback behind an error.",
    ]
    command: Any = typer.main.get_command(app)
    for name, verb in _verbs("fit", command):
        context = click.Context(verb, info_name=name, max_content_width=100, terminal_width=100)
        parts += [f"### {name}", f"```text\n{verb.get_help(context).strip()}\n```"]
    parts.append("## Training settings")
    parts.append(
        "Fields of `TrainingConfig`: parameters of `FewShotClassifier`, options of `fit train`, keys of recipes and "
        "of `--set`. The default is that of the dataclass; a preset has its own values."
    )
    rows = ["| setting | default | allowed | meaning |", "|---|---|---|---|"]
    for setting in settings():
        none = f"; None: {setting.none}" if setting.none else ""
        rows.append(f"| {setting.name} | {setting.default} | {setting.allowed()}{none} | {setting.help} |")
    parts.append("\n".join(rows))
    parts.append("## Presets")
    rows = ["| preset | " + " | ".join(PRESETS["fast"].to_dict()) + " |"]
    rows.append("|" + "---|" * (len(PRESETS["fast"].to_dict()) + 1))
    rows += [
        f"| {name} | " + " | ".join(str(v) for v in s.to_dict().values()) + " |"
        for name, s in PRESETS.items()
    ]
    parts.append("\n".join(rows))
    parts.append("## Backbones")
    rows = [
        "| name | timm model | numbers | features | FiLM sites | FiLM numbers | licence |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, record in CATALOGUE.items():
        facts = backbone_facts(name)
        rows.append(
            f"| {name} | {record.timm_name} | {facts.parameters:,} | {facts.features} | {len(facts.site_names)} | {facts.film_parameters:,} | {record.licence} |"
        )
    parts.append("\n".join(rows))
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


def _describe(item: Any) -> str:
    lines = [f"```python\n{item.__name__}{_signature(item)}\n```" if not issubclass(item, Exception) else ""]
    lines.append(f"```text\n{inspect.cleandoc(item.__doc__ or '')}\n```")
    for name, member in vars(item).items():
        function = getattr(member, "__func__", member)
        if name.startswith("_") or not inspect.isfunction(function) or not function.__doc__:
            continue
        lines.append(f"- `{name}{_signature(function)}`: {function.__doc__.strip().splitlines()[0]}")
    bases = [base for base in item.__mro__[1:] if base.__module__.startswith("filmtransfer")]
    for base in bases:
        shared = [
            f"- `{name}{_signature(member)}`: {member.__doc__.strip().splitlines()[0]}"
            for name, member in vars(base).items()
            if inspect.isfunction(member)
            and member.__doc__
            and not name.startswith("_")
            and name not in vars(item)
        ]
        lines += shared
    return "\n".join(line for line in lines if line)


def _signature(item: Any) -> str:
    try:
        return str(inspect.signature(item))
    except (TypeError, ValueError):
        return "(…)"


def put_tables(page: Path) -> None:
    """Fill the places <!-- name --> … <!-- /name --> of a page with benchmarks/results/name.md."""
    text = page.read_text()
    for name in re.findall(r"<!-- ([\w/]+) -->", text):
        result = ROOT / f"benchmarks/results/{name}.md"
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.S)
        text = place.sub(lambda m, r=result: m.group(1) + r.read_text() + m.group(2), text)
    page.write_text(text)


if __name__ == "__main__":
    TARGET.write_text(reference())
    for page in (
        "README.md",
        "docs/presets.md",
        "docs/performance.md",
        "docs/trust.md",
        "docs/scale.md",
        "docs/export.md",
        "docs/orbit.md",
        "docs/benchmarks.md",
        "docs/federated.md",
    ):
        put_tables(ROOT / page)
    print(f"wrote {TARGET.name} and the measured tables")
