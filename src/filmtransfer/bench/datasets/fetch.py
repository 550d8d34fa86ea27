"""Download published archives: complete and verified, or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from ...errors import InputError, UnavailableError, UpdateFileError
from ...files import reading
from .dataset import DatasetEntry, PublishedFile
from .location import dataset_folders, download_instructions, locate_file

BLOCK = 1 << 20
TIMEOUT = 30.0  # seconds without a byte

DownloadProgress = Callable[[str, int, int], None]  # file, bytes so far, total bytes (0 if unknown)


def fetch(entry: DatasetEntry, root: str | Path, *, progress: DownloadProgress | None = None) -> list[Path]:
    """Return the files of a dataset: verify those that exist, download the others to ``root/<name>``.

    Only files that the publisher offers to everyone and that have a published checksum are downloaded;
    for the others the error says where to get them.
    """
    base = Path(root)
    paths = []
    for file in entry.files:
        path = locate_file(file, entry, base)
        if path is not None:
            verify(path, file)
        paths.append(path or _download(file, entry, base, progress))
    return paths


def verify(path: Path, file: PublishedFile) -> None:
    """Raise an error unless the file matches every known checksum of the published one."""
    for algorithm, expected in (("sha256", file.sha256), ("md5", file.md5)):
        if not expected:
            continue
        with reading(path, "Download it again."), path.open("rb") as content:
            digest = hashlib.file_digest(content, algorithm).hexdigest()
        if digest != expected:
            raise UpdateFileError(
                f"{file.name} is not the published file: its {algorithm} is {digest}, not {expected}.",
                "Download it again; if the checksum stays different, the publisher has changed the file.",
            )


def _download(
    file: PublishedFile, entry: DatasetEntry, root: Path, progress: DownloadProgress | None
) -> Path:
    instructions = download_instructions(entry, root)
    if not entry.free or not file.url or not (file.sha256 or file.md5):
        reason = f"its licence: {entry.licence}" if not entry.free else "its checksum is unknown"
        raise UnavailableError(
            f"{file.name} of {entry.title} cannot be downloaded automatically ({reason}).", instructions
        )
    folder = dataset_folders(entry, root)[0]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if file.bytes > free:
            raise InputError(
                f"{file.name} needs {file.bytes:,} bytes and {folder} has {free:,}.", "Free some space."
            )
        handle, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=folder)
    except OSError as error:
        raise InputError(
            f"{folder} is not writable ({error.strerror}).", "Choose another data folder."
        ) from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            _receive(file, out.write, instructions, progress)
            out.flush()
            os.fsync(out.fileno())
        verify(part, file)
        part.chmod(0o644)  # mkstemp gives access to the owner only
        part.replace(folder / file.name)
    except OSError as error:
        raise InputError(
            f"{folder / file.name} cannot be written ({error.strerror}).", "Free some space."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return folder / file.name


def _receive(
    file: PublishedFile, write: Callable[[bytes], int], instructions: str, progress: DownloadProgress | None
) -> None:
    """Copy the content of the URL; network errors are distinguished from a full disk."""
    try:
        response = urllib.request.urlopen(file.url, timeout=TIMEOUT)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unreachable(file, error, instructions) from None
    with response:
        done = 0
        while True:
            try:
                block = response.read(BLOCK)
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(file, error, instructions) from None
            if not block:
                return
            write(block)
            done += len(block)
            if progress:
                progress(file.name, done, file.bytes)


def _unreachable(file: PublishedFile, error: Exception, instructions: str) -> UnavailableError:
    reason = getattr(error, "reason", None) or error
    return UnavailableError(
        f"{file.url} cannot be downloaded ({' '.join(str(reason).split())[:100]}).", instructions
    )
