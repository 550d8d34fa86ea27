"""Write the tables of limits in docs/security.md from budgets.py and from the settings of the service.

make docs
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from filmtransfer import budgets
from filmtransfer.serve import settings

ROOT = Path(__file__).parents[1]
TARGET = ROOT / "docs/security.md"

Limit = tuple[str, float, str]  # name, value, what it limits


def constants() -> dict[str, list[Limit]]:
    """Return the limits of budgets.py by section; a comment on a line of its own begins a section."""
    sections: dict[str, list[Limit]] = {}
    limits: list[Limit] = []
    for line in Path(budgets.__file__).read_text("utf-8").splitlines():
        if line.startswith("# "):
            limits = sections.setdefault(line.removeprefix("# "), [])
        elif match := re.match(r"([A-Z_]+) = ", line):
            limits.append((match[1], getattr(budgets, match[1]), _comment(line)))
    return sections


def service_settings() -> list[Limit]:
    """Return the limits that an operator may change, with their defaults; ``None`` depends on other settings."""
    source = Path(settings.__file__).read_text("utf-8")
    return [
        (declared.name, declared.default, _comment(line))
        for declared in dataclasses.fields(settings.ServiceSettings)
        if isinstance(declared.default, int | float)
        for line in re.findall(rf"^    {declared.name}: .*", source, re.M)
    ]


def _comment(line: str) -> str:
    return line.partition("  # ")[2]


def page() -> str:
    """Return docs/security.md with the present limits."""
    tables = [_table(title, limits) for title, limits in constants().items()]
    tables.append(_table("Settings of the service (defaults)", service_settings()))
    return re.sub(
        r"<!-- limits -->.*<!-- /limits -->",
        lambda _: "\n\n".join(["<!-- limits -->", *tables, "<!-- /limits -->"]),
        TARGET.read_text("utf-8"),
        flags=re.S,
    )


def _table(title: str, limits: list[Limit]) -> str:
    lines = [f"### {title}", "", "| limit | value | of what |", "|---|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {value:,} | {about} |" for name, value, about in limits)])


if __name__ == "__main__":
    TARGET.write_text(page(), "utf-8")
    print(f"wrote the limits of {TARGET.name}")
