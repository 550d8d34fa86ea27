"""Write locks/, the exact files that make installs on Linux x86-64 with CPython 3.11, from the pins of constraints.txt.

    make lock
    python -m scripts.make_lock [--upgrade | --check]

A lock lists each package with its version and the SHA-256 digests of its wheels:

    core.txt   what filmtransfer needs, and what builds it
    dev.txt    what the extras add
    cpu.txt    torch's build without CUDA
    cuda.txt   torch as PyPI has it, and the CUDA libraries that this build needs

uv resolves the dependencies and knows the digests of all files of PyPI. The build of torch for CPUs is not on PyPI: its
digest is that of the file that pip takes on the machine that writes the lock. Versions stay as they are unless the pins
change or --upgrade is given; --check compares the lock with pyproject.toml and constraints.txt, and needs no network.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCKS = ("core", "dev", "cpu", "cuda")
PYTHON, PLATFORM = "3.11", "x86_64-manylinux_2_28"  # scripts/install.py uses the lock there
EDITABLE = "editables~=0.3"  # what hatchling needs besides, to install the sources in place
CUDA = ("cuda-", "nvidia-", "triton")  # what torch needs beside itself on PyPI only
UV = Path(sys.prefix, "bin", "uv")  # Flower brings it
HEADER = "# Written by scripts/make_lock.py from pyproject.toml and constraints.txt: make lock."


@dataclass(frozen=True)
class Pin:
    """A version of a package and the SHA-256 digests of its files."""

    version: str
    digests: tuple[str, ...]


Lock = Mapping[str, Pin]


def read_lock(name: str, root: Path = ROOT) -> dict[str, Pin]:
    """Return the packages of a lock by canonical name."""
    pins = {}
    text = (root / "locks" / f"{name}.txt").read_text().replace("\\\n", "")
    for line in text.splitlines():
        if line and not line.startswith("#"):
            package, *digests = line.split()
            title, _, version = package.partition("==")
            pins[title] = Pin(version, tuple(digest.removeprefix("--hash=sha256:") for digest in digests))
    return pins


def format_lock(pins: Lock) -> str:
    """Return the text of a lock in pip's format of requirements."""
    entries = (
        " \\\n".join([f"{name}=={pin.version}", *(f"    --hash=sha256:{digest}" for digest in pin.digests)])
        for name, pin in sorted(pins.items())
    )
    return "\n".join([HEADER, *entries]) + "\n"


def problems(root: Path = ROOT) -> list[str]:
    """Return how the lock disagrees with pyproject.toml and constraints.txt, one line each."""
    locks = {name: read_lock(name, root) for name in LOCKS}
    project = tomllib.loads((root / "pyproject.toml").read_text())
    core = [*project["project"]["dependencies"], *project["build-system"]["requires"], EDITABLE]
    extras = chain.from_iterable(project["project"]["optional-dependencies"].values())
    constraints = [line for line in (root / "constraints.txt").read_text().splitlines() if line[:1] != "#"]
    without_torch = {**locks["core"], **locks["dev"]}
    found = [
        *_digests(locks),
        *(f"{name} is in core.txt and in dev.txt" for name in locks["core"].keys() & locks["dev"].keys()),
    ]
    for torch in (locks["cpu"], locks["cuda"]):
        found += _unsatisfied(core, {**locks["core"], **torch})
        found += _unsatisfied(extras, {**without_torch, **torch})
        found += _unsatisfied(constraints, {**without_torch, **torch})
    return sorted(set(found))


def _digests(locks: Mapping[str, Lock]) -> Iterator[str]:
    for file, pins in locks.items():
        for name, pin in pins.items():
            if not pin.digests or any(len(digest) != 64 for digest in pin.digests):
                yield f"{name} has no SHA-256 digest in {file}.txt"


def _unsatisfied(requirements: Iterable[str], pins: Lock) -> Iterator[str]:
    for text in requirements:
        requirement = Requirement(text)
        pin = pins.get(canonicalize_name(requirement.name))
        if requirement.name == "filmtransfer":  # an extra that consists of other extras
            continue
        if pin is None:
            yield f"{text} is not in the lock"
        elif not requirement.specifier.contains(pin.version, prereleases=True):
            yield f"{requirement.name} is {pin.version} in the lock, not {requirement.specifier}"


def make(upgrade: bool) -> None:
    """Write the four locks."""
    if not UV.is_file():
        raise SystemExit("uv, which resolves the dependencies, is not installed here: run make quick first.")
    complete = _resolve(["--all-extras"], {} if upgrade else _previous())
    core = _resolve([], complete)
    cuda = {name: pin for name, pin in complete.items() if name == "torch" or name.startswith(CUDA)}
    locks = {
        "core": {name: pin for name, pin in core.items() if name not in cuda},
        "dev": {name: pin for name, pin in complete.items() if name not in {*core, *cuda}},
        "cpu": {"torch": _cpu_build(complete["torch"].version)},
        "cuda": cuda,
    }
    for name, pins in locks.items():
        (ROOT / "locks" / f"{name}.txt").write_text(format_lock(pins))
        print(f"locks/{name}.txt: {len(pins)} packages")


def _previous() -> dict[str, Pin]:
    try:
        return {name: pin for lock in ("core", "dev", "cuda") for name, pin in read_lock(lock).items()}
    except FileNotFoundError:
        return {}


def _resolve(options: list[str], preferred: Lock) -> dict[str, Pin]:
    """Resolve the project's dependencies and keep the preferred versions where the pins allow it."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    entries = (f'[[packages]]\nname = "{name}"\nversion = "{pin.version}"' for name, pin in preferred.items())
    with tempfile.TemporaryDirectory() as folder:
        extra, out = Path(folder, "build.in"), Path(folder, "pylock.toml")
        extra.write_text("\n".join([*build, EDITABLE]))
        if preferred:  # uv keeps the versions of the file that it replaces
            out.write_text("\n".join(['lock-version = "1.0"', 'created-by = "uv"', *entries]))
        command: list[str | Path] = [
            *(UV, "pip", "compile", "--quiet", ROOT / "pyproject.toml", extra),
            *("--constraints", ROOT / "constraints.txt", "--format", "pylock.toml", "--output-file", out),
            *("--python-version", PYTHON, "--python-platform", PLATFORM, *options),
        ]
        subprocess.run(command, check=True)
        packages = tomllib.loads(out.read_text())["packages"]
    return {
        one["name"]: Pin(
            one["version"], tuple(sorted(wheel["hashes"]["sha256"] for wheel in one.get("wheels", [])))
        )
        for one in packages
    }


def _cpu_build(version: str) -> Pin:
    """Return the build of torch that pip takes here, or the one locked before if this machine has none."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--dry-run"]
    command += [
        "--ignore-installed",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--report",
        "-",
        f"torch=={version}",
    ]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    (torch,) = report["install"]
    found = Pin(torch["metadata"]["version"], (torch["download_info"]["archive_info"]["hashes"]["sha256"],))
    if found.version == f"{version}+cpu":
        return found
    locked = read_lock("cpu")["torch"]
    if locked.version != f"{version}+cpu":
        raise SystemExit(f"pip finds no build of torch {version} for CPUs here: add the index that has it.")
    return locked


def main() -> None:
    parser = argparse.ArgumentParser(description="Write or check locks/.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--upgrade", action="store_true", help="take the newest versions that the pins allow")
    choice.add_argument("--check", action="store_true", help="compare the lock with its sources")
    arguments = parser.parse_args()
    if not arguments.check:
        make(arguments.upgrade)
    if found := problems():
        raise SystemExit(
            "\n".join([*found, "The lock does not fit pyproject.toml and constraints.txt: make lock."])
        )


if __name__ == "__main__":
    main()
