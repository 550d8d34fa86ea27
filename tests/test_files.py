"""Folders that are created, and their errors."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from filmtransfer.errors import InputError
from filmtransfer.files import cache_folder, make_folder, open_private, sync_folder


def test_parents_are_created_only_on_request(tmp_path):
    with pytest.raises(InputError, match="There is no folder"):
        make_folder(tmp_path / "a" / "b")
    assert make_folder(tmp_path / "a" / "b", parents=True).is_dir()
    assert make_folder(tmp_path / "a" / "b") == tmp_path / "a" / "b"  # it exists already


def test_a_private_folder_can_be_read_by_its_owner_only(tmp_path):
    before = os.umask(0o022)
    try:
        modes = [
            stat.S_IMODE(make_folder(tmp_path / "open").stat().st_mode),
            stat.S_IMODE(make_folder(tmp_path / "private", mode=0o700).stat().st_mode),
        ]
    finally:
        os.umask(before)
    assert modes == [0o755, 0o700]


@pytest.mark.parametrize("parents", [False, True])
def test_a_file_in_the_way_is_an_error(parents, tmp_path):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="is a file, not a folder"):
        make_folder(tmp_path / "taken", parents=parents)
    with pytest.raises(InputError, match="cannot be created"):
        make_folder(tmp_path / "taken" / "below", parents=parents)


def test_a_folder_that_cannot_be_flushed_is_an_error(tmp_path):
    sync_folder(tmp_path)
    with pytest.raises(FileNotFoundError):
        sync_folder(tmp_path / "absent")


def test_the_folder_is_the_users_cache(monkeypatch):
    monkeypatch.setenv("FILMTRANSFER_CACHE", "/chosen")
    assert cache_folder() == Path("/chosen")
    monkeypatch.delenv("FILMTRANSFER_CACHE")
    monkeypatch.setenv("HOME", "/users/ana")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    assert cache_folder() == Path("/users/ana/.cache/filmtransfer")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache_folder() == Path("/cache/filmtransfer")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder() == Path("/users/ana/Library/Caches/filmtransfer")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", "/local")
    assert cache_folder() == Path("/local/filmtransfer")


def test_a_private_file_is_private_from_the_first_byte_and_if_it_was_not(tmp_path):
    before = os.umask(0o022)
    try:
        (tmp_path / "old.log").write_text("before\n")
        for name in ("old.log", "new.log"):
            with open(open_private(tmp_path / name), "a") as file:
                file.write("line\n")
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert (tmp_path / "old.log").read_text() == "before\nline\n"
