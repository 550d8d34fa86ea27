"""Hints name the pip and the command of this environment, as they are called from the current folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from filmtransfer import installation
from filmtransfer.errors import MissingExtraError


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A clone in the current folder with an environment in .venv, which is not activated."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "pip", "fit"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("PATH", "/nowhere")
    return tmp_path


def installed_from(monkeypatch, direct_url: str | None) -> None:
    class Distribution:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return direct_url

    monkeypatch.setattr(installation, "distribution", lambda _: Distribution())


def test_a_clone_is_named_as_seen_from_here(environment, monkeypatch):
    installed_from(monkeypatch, f'{{"url": "file://{environment}", "dir_info": {{"editable": true}}}}')
    assert installation.extra_command("serve") == ".venv/bin/python -m pip install -e '.[serve]'"
    assert installation.command() == ".venv/bin/fit"
    assert installation.extra_command("serve") in MissingExtraError("The service", "serve").hint
    (environment / "photos").mkdir()
    monkeypatch.chdir(environment / "photos")
    assert f"{environment}/.venv/bin/python -m pip" in installation.install_command("torch")


def test_an_activated_environment_needs_no_path(environment, monkeypatch):
    installed_from(monkeypatch, None)
    monkeypatch.setenv("PATH", str(environment / ".venv" / "bin"))
    assert installation.extra_command("serve") == "pip install 'filmtransfer[serve]'"
    assert installation.install_command("torch") == "pip install torch"
    assert installation.command() == "fit"
    (environment / ".venv" / "bin" / "pip").unlink()
    assert installation.install_command("torch") == "python -m pip install torch"


def test_a_clone_that_is_gone_is_not_named(environment, monkeypatch):
    installed_from(monkeypatch, f'{{"url": "file://{environment}/deleted"}}')
    assert installation.extra_command("serve").endswith("install 'filmtransfer[serve]'")


def test_the_hint_of_this_installation_names_a_folder_that_exists():
    command = installation.extra_command("serve")
    if " -e " in command:
        folder = command.partition(" -e ")[2].strip("'").removesuffix("[serve]")
        assert (Path(folder) / "pyproject.toml").is_file()
