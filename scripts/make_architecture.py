"""Write the map of files in docs/architecture.md from the first sentence of every module.

make docs
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src/filmtransfer"
TARGET = ROOT / "docs/architecture.md"


def first_sentence(module: Path) -> str:
    """Return the first sentence of a module's docstring; "et al. (2017)" does not end one."""
    text = ast.get_docstring(ast.parse(module.read_text("utf-8"))) or ""
    sentence = re.split(r"(?<=\.)\s(?=[A-Z`])", " ".join(text.split("\n\n")[0].split()))[0]
    return sentence.rstrip(".")


def module_map() -> str:
    """Return a table of files for every package, in the order of the layers."""
    parts = []
    for folder in sorted({file.parent for file in PACKAGE.rglob("*.py")}):
        name = folder.relative_to(PACKAGE.parent)
        if not (folder / "__init__.py").is_file():  # scripts of Alembic
            continue
        about = first_sentence(folder / "__init__.py")
        parts += [f"### {name}", about + ".", "| file | what it is |\n|---|---|"]
        rows = [
            f"| `{file.name}` | {first_sentence(file).replace('|', '·')} |"
            for file in sorted(folder.glob("*.py"))
            if file.name != "__init__.py"
        ]
        parts[-1] += "\n" + "\n".join(rows) if rows else ""
        if not rows:
            parts.pop()
    return "\n\n".join(parts)


def page() -> str:
    """Return docs/architecture.md with the present map."""
    text = TARGET.read_text("utf-8")
    return re.sub(
        r"<!-- map -->.*<!-- /map -->",
        lambda _: f"<!-- map -->\n{module_map()}\n<!-- /map -->",
        text,
        flags=re.S,
    )


if __name__ == "__main__":
    TARGET.write_text(page(), "utf-8")
