"""Downloads of published archives: whole, checked, or not at all."""

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
from .dataset import DatasetEntry, PublishedFile
from .location import dataset_folders, download_instructions, locate_file

BLOCK = 1 << 20
TIMEOUT = 30.0  # seconds without a byte

Progress = Callable[[str, int, int], None]  # file, bytes so far, bytes in all (0 if not known)


def fetch(entry: DatasetEntry, root: str | Path, *, progress: Progress | None = None) -> list[Path]:
    """The files of a set, those at hand checked and those that are missing downloaded to ``root/<name>``.

    Only what its publisher offers to everyone and a published checksum can vouch for is downloaded;
    for the rest the error says what to get where.
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
    """Whether a file is the published one, by all checksums that are known of it."""
    for kind, wanted in (("sha256", file.sha256), ("md5", file.md5)):
        if not wanted:
            continue
        try:
            with path.open("rb") as stream:
                found = hashlib.file_digest(stream, kind).hexdigest()
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}).", "Get it again.") from None
        if found != wanted:
            raise UpdateFileError(
                f"{file.name} is not the published file: its {kind} is {found}, not {wanted}.",
                "Get it again; if it stays so, its publisher has changed it.",
            )


def _download(file: PublishedFile, entry: DatasetEntry, root: Path, progress: Progress | None) -> Path:
    by_hand = download_instructions(entry, root)
    if not entry.free or not file.url or not (file.sha256 or file.md5):
        why = f"its licence: {entry.licence}" if not entry.free else "no checksum of it is known"
        raise UnavailableError(f"{file.name} of {entry.title} is not downloaded here ({why}).", by_hand)
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
            f"{folder} cannot be written ({error.strerror}).", "Choose another data folder."
        ) from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            _receive(file, out.write, by_hand, progress)
            out.flush()
            os.fsync(out.fileno())
        verify(part, file)
        part.chmod(0o644)  # mkstemp's are for their owner only
        part.replace(folder / file.name)
    except OSError as error:
        raise InputError(
            f"{folder / file.name} cannot be written ({error.strerror}).", "Free some space."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return folder / file.name


def _receive(
    file: PublishedFile, write: Callable[[bytes], int], by_hand: str, progress: Progress | None
) -> None:
    """Read from the network; what goes wrong there is told apart from a full disk."""
    try:
        answer = urllib.request.urlopen(file.url, timeout=TIMEOUT)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unreachable(file, error, by_hand) from None
    with answer:
        done = 0
        while True:
            try:
                block = answer.read(BLOCK)
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(file, error, by_hand) from None
            if not block:
                return
            write(block)
            done += len(block)
            if progress:
                progress(file.name, done, file.bytes)


def _unreachable(file: PublishedFile, error: Exception, by_hand: str) -> UnavailableError:
    why = getattr(error, "reason", None) or error
    return UnavailableError(f"{file.url} cannot be downloaded ({' '.join(str(why).split())[:100]}).", by_hand)
