"""The lock of the set-up fits the pins, and each file in it has a digest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from types import SimpleNamespace

import pytest
from scripts import install
from scripts.make_lock import LOCKS, ROOT, format_lock, problems, read_lock


@pytest.fixture
def copy(tmp_path):
    """A copy of what the lock depends on."""
    shutil.copytree(ROOT / "locks", tmp_path / "locks")
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def replace(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_lock_fits_the_pins():
    assert problems() == []


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_is_packages_and_digests_and_nothing_of_the_machine_that_wrote_it(name):
    assert (ROOT / "locks" / f"{name}.txt").read_text() == format_lock(read_lock(name))


def test_a_dependency_that_is_not_locked_is_reported(copy):
    replace(
        copy / "pyproject.toml", 'report = ["matplotlib>=3.9"]', 'report = ["matplotlib>=3.9", "seaborn"]'
    )
    assert problems(copy) == ["seaborn is not in the lock"]


def test_a_range_that_excludes_the_locked_version_is_reported(copy):
    replace(copy / "pyproject.toml", '"matplotlib>=3.9"', '"matplotlib>=99"')
    assert [line.endswith("in the lock, not >=99") for line in problems(copy)] == [True]


def test_a_pin_that_was_changed_is_reported(copy):
    replace(copy / "constraints.txt", "torch==2.13.0", "torch==2.13.1")
    assert problems(copy) == [
        "torch is 2.13.0 in the lock, not ==2.13.1",
        "torch is 2.13.0+cpu in the lock, not ==2.13.1",
    ]


def test_an_entry_without_a_digest_is_reported(copy):
    (copy / "locks" / "dev.txt").write_text((copy / "locks" / "dev.txt").read_text() + "evil==1.0\n")
    assert problems(copy) == ["evil has no SHA-256 digest in dev.txt"]


@pytest.fixture
def commands(monkeypatch):
    """The arguments of pip's calls, which do nothing; pip would take torch in ``version``."""
    recorded = SimpleNamespace(calls=[], version="")

    def run(command, **_):
        recorded.calls.append(" ".join(command[4:]).replace(f"{ROOT}/", ""))
        return SimpleNamespace(stdout=json.dumps({"install": [{"metadata": {"version": recorded.version}}]}))

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install.sys, "argv", ["install.py", "core"])
    return recorded


@pytest.mark.parametrize(("version", "lock"), [("2.13.0+cpu", "cpu"), ("2.13.0", "cuda")])
def test_where_the_lock_applies_only_its_files_are_installed(commands, monkeypatch, version, lock):
    commands.version = version
    monkeypatch.setattr(install, "lock_applies", lambda: True)
    install.main()
    assert commands.calls[1] == (
        "install --no-deps --require-hashes --only-binary :all: "
        f"--requirement locks/{lock}.txt --requirement locks/core.txt"
    )
    assert all("--no-deps" in call or call == "check" for call in commands.calls)


@pytest.mark.process(seconds=15)
def test_the_choice_of_the_lock_runs_no_code_of_a_package(tmp_path):
    """A source distribution whose version sorts above every wheel: pip would run its build to learn the version."""
    evil = tmp_path / "torch-2.13.0+evil"
    evil.mkdir()
    (evil / "setup.py").write_text(
        f"open({str(tmp_path / 'ran')!r}, 'w').close()\nimport setuptools\nsetuptools.setup()\n"
    )
    (evil / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.13.0+evil\n")
    with tarfile.open(tmp_path / f"{evil.name}.tar.gz", "w:gz") as archive:
        archive.add(evil, evil.name)
    for lookup in ("install._torch_lock()", "make_lock._cpu_build('2.13.0')"):
        command = [sys.executable, "-c", f"from scripts import install, make_lock; {lookup}"]
        environment = os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode != 0, done.stdout
        assert not (tmp_path / "ran").exists(), lookup


def test_elsewhere_the_pins_are_installed(commands, monkeypatch):
    monkeypatch.setattr(install.platform, "machine", lambda: "riscv64")
    assert not install.lock_applies()
    install.main()
    (call,) = commands.calls
    assert call.startswith("install --constraint constraints.txt torch==")
