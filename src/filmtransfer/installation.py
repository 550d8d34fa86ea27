"""How this package was installed: the pip command that adds a part to it, and how its own command is called."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlparse

NAME = "filmtransfer"


def install_command(*requirements: str) -> str:
    """Return the pip command that installs packages where this program runs."""
    return " ".join([_pip(), "install", *(shlex.quote(one) for one in requirements)])


def extra_command(extra: str = "") -> str:
    """Return the pip command that installs this package with an extra: from its clone if it came from one."""
    clone, extras = _clone(), f"[{extra}]" if extra else ""
    if clone is None:
        return install_command(f"{NAME}{extras}")
    return install_command("-e", f"{_shown(clone)}{extras}")


def command() -> str:
    """Return how the command ``fit`` of this environment is called from here."""
    program = Path(sys.executable).with_name("fit")
    if _same_folder(shutil.which("fit"), program) or not program.is_file():
        return "fit"
    return shlex.quote(_shown(program))


def _clone() -> Path | None:
    """Return the source folder of an installation that pip made from a folder, which no index need know."""
    try:
        content = distribution(NAME).read_text("direct_url.json") or "{}"
        url = urlparse(json.loads(content).get("url", ""))
        folder = Path(unquote(url.path)) if url.scheme == "file" else None
    except PackageNotFoundError:  # run from a source tree that is not installed, or from filmtransfer-predict
        folder = Path(__file__).parents[2]
    return folder if folder is not None and (folder / "pyproject.toml").is_file() else None


def _pip() -> str:
    """Return how pip of this environment is called from here: by its short name if that is the same one."""
    python = Path(sys.executable)
    if _same_folder(shutil.which("pip"), python):
        return "pip"
    if _same_folder(shutil.which("python"), python):
        return "python -m pip"
    return f"{shlex.quote(_shown(python))} -m pip"


def _same_folder(program: str | None, python: Path) -> bool:
    return program is not None and Path(program).parent == python.parent


def _shown(path: Path) -> str:
    """Return a path as short as it can be typed in the current folder."""
    try:
        relative = os.path.relpath(path)
    except (ValueError, OSError):  # another drive, or a current folder that was deleted
        return str(path)
    return str(path) if relative.startswith("..") else relative
