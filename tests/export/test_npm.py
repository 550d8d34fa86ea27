"""Packages of npm are compared with their digests before they are opened."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
from pathlib import Path

import pytest

from filmtransfer import UnavailableError
from filmtransfer.export.npm import NpmPackage, fetch_files

MEMBERS = {"page.js": "dist/page.js"}


def archive(content: bytes, name: str = "package/dist/page.js") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def package_of(content: bytes) -> NpmPackage:
    digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
    return NpmPackage("pages", "1.2.3", f"sha512-{digest}")


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """A program npm that delivers ``delivered``, and fails without it."""
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    delivered = tmp_path / "delivered"
    program.write_text(f'#!/bin/sh\n/bin/cp "{delivered}" pages-1.2.3.tgz\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return delivered


@pytest.mark.process(seconds=1)
def test_the_published_package_is_unpacked(npm, tmp_path):
    npm.write_bytes(archive(b"published"))
    fetch_files(package_of(npm.read_bytes()), MEMBERS, tmp_path / "share", "")
    assert [(file.name, file.read_bytes()) for file in (tmp_path / "share").iterdir()] == [
        ("page.js", b"published")
    ]


@pytest.mark.process(seconds=1)
def test_a_tampered_package_is_refused_and_not_opened(npm, tmp_path, monkeypatch):
    npm.write_bytes(archive(b"malicious"))
    package = package_of(archive(b"published"))
    monkeypatch.setattr(tarfile, "open", pytest.fail)
    with pytest.raises(
        UnavailableError, match=r"pages@1\.2\.3 is not the published package.*nothing was unpacked\. Do this"
    ):
        fetch_files(package, MEMBERS, tmp_path / "share", "Do this.")
    assert not (tmp_path / "share").exists()


@pytest.mark.process(seconds=1)
def test_a_package_without_the_file_and_a_failing_npm_are_one_clear_error(npm, tmp_path):
    npm.write_bytes(archive(b"", "package/other.js"))
    with pytest.raises(UnavailableError, match="lacks a file"):
        fetch_files(package_of(npm.read_bytes()), MEMBERS, tmp_path / "share", "")
    npm.unlink()
    with pytest.raises(UnavailableError, match="npm could not download pages"):
        fetch_files(package_of(b""), MEMBERS, tmp_path / "share", "")


def test_without_npm_the_error_says_so(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="nor npm, which downloads it"):
        fetch_files(package_of(b""), MEMBERS, tmp_path / "share", "")
