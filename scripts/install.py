"""Install filmtransfer and its dependencies into this environment, as make does.

    .venv/bin/python scripts/install.py core|dev [--lock no]

On Linux x86-64 with CPython 3.11 only the files that locks/ lists by digest are installed (see make_lock.py): pip refuses
any other, resolves nothing and runs no code of a package. Elsewhere, or with ``--lock no``, pip resolves the dependencies
under constraints.txt. Only the standard library is needed.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
PARTS = {"core": "", "dev": "[dev]"}


def lock_applies() -> bool:
    """Return whether the lock was made for this interpreter and machine."""
    here = (sys.platform, platform.machine(), sys.implementation.name, sys.version_info[:2])
    return here == ("linux", "x86_64", "cpython", (3, 11)) and platform.libc_ver()[0] == "glibc"


def install(part: str) -> None:
    """Install ``core`` or ``dev`` under the pins; torch is named by version, so that pip prefers a build for CPUs."""
    constraints = (ROOT / "constraints.txt").read_text().splitlines()
    torch = next(pin for pin in constraints if pin.startswith("torch=="))
    _pip(
        "install", "--constraint", str(ROOT / "constraints.txt"), torch, "--editable", f"{ROOT}{PARTS[part]}"
    )


def install_locked(part: str) -> None:
    """Install ``core`` or ``dev`` from the lock, then the sources with the build backend of the lock."""
    locks = [_torch_lock(), "core", *(["dev"] if part == "dev" else [])]
    files = [
        argument for name in locks for argument in ("--requirement", str(ROOT / "locks" / f"{name}.txt"))
    ]
    _pip("install", "--no-deps", "--require-hashes", "--only-binary", ":all:", *files)
    _pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    _pip("check")  # a lock that lacks something


def _torch_lock() -> str:
    """Return which lock has the build of torch that pip takes here: its version has a suffix if it is not PyPI's."""
    version = next(
        line.split()[0]
        for line in (ROOT / "locks" / "cuda.txt").read_text().splitlines()
        if "torch==" in line
    )
    command = [
        *PIP,
        "install",
        "--quiet",
        "--dry-run",
        "--ignore-installed",
        "--no-deps",
        "--only-binary",  # pip would run the build of a source distribution to learn its version
        ":all:",
        "--report",
        "-",
        version,
    ]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return "cpu" if report["install"][0]["metadata"]["version"].endswith("+cpu") else "cuda"


def _pip(*arguments: str) -> None:
    subprocess.run([*PIP, *arguments], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Install filmtransfer and its dependencies into this environment."
    )
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--lock", choices=("yes", "no"), default="yes", help="no: by version only")
    arguments = parser.parse_args()
    locked = arguments.lock == "yes" and lock_applies()
    try:
        (install_locked if locked else install)(arguments.part)
    except subprocess.CalledProcessError:
        note = (
            " by digest; 'make LOCK=no …' installs the same versions without comparing digests"
            if locked
            else ""
        )
        raise SystemExit(f"The dependencies could not be installed{note}. See pip's message above.") from None


if __name__ == "__main__":
    main()
