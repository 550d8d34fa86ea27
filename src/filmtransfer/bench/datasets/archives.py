"""Unpack published archives: completely or not at all, and never outside the target folder.

What they expand to is counted while they are unpacked, against a budget that follows from their size.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from io import BufferedIOBase
from pathlib import Path, PureWindowsPath

from ...budgets import (
    MAX_ARCHIVE_MEMBERS,
    MAX_MEMBER_HEADER,
    MAX_UNPACKED_BYTES,
    MAX_UNPACKED_RATIO,
    MAX_UNPACKED_SMALL,
)
from ...errors import InputError, UpdateFileError
from ...formatting import file_size

BLOCK = 1 << 20
# zipfile raises RuntimeError for a password or an unknown method, ValueError for undecodable names.
CORRUPT = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OverflowError,  # a time that is out of range
    LookupError,  # a hard link to a member that is not there, a member without a name
    RuntimeError,
    ValueError,
)
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

READERS: dict[bytes, Callable[[Path], BufferedIOBase]] = {  # by the first bytes of a file
    b"\x1f\x8b": gzip.GzipFile,
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ": lzma.LZMAFile,
    b"\x5d\0\0": lzma.LZMAFile,
    b"": lambda file: file.open("rb"),
}


class UnwritableFolderError(InputError):
    """The folder to unpack into cannot be created; another folder may work."""


def is_archive(file: Path) -> bool:
    """Return whether the file name has the suffix of an archive."""
    return file.name.lower().endswith(SUFFIXES)


def unpack(files: Sequence[Path], folder: Path) -> Path:
    """Unpack archives, and put other files next to their content; ``folder`` appears only when it is complete.

    An archive inside an archive is unpacked too (Caltech publishes a zip of tars).
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        workspace = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UnwritableFolderError(
            f"{folder} cannot be created ({error.strerror}).", "Choose a writable data folder."
        ) from None
    expansion = Expansion(files)
    try:
        for file in files:
            _add(file, workspace, expansion)
        for inner in [path for path in sorted(workspace.rglob("*")) if path.is_file() and is_archive(path)]:
            _extract(inner, inner.parent, expansion)
            inner.unlink()
        workspace.chmod(0o755)  # mkdtemp gives access to the owner only
        workspace.rename(folder)
        return folder
    except OSError as error:
        if folder.is_dir():  # another process was faster: its result is the same
            return folder
        raise InputError(
            f"{files[0]} cannot be unpacked into {folder} ({error.strerror or error}).",
            "Free some space, or choose another data folder.",
        ) from None
    finally:
        shutil.rmtree(workspace, ignore_errors=True)


class Expansion:
    """What archives have been expanded to so far; too much is an error."""

    def __init__(self, files: Sequence[Path]) -> None:
        packed = sum(file.stat().st_size for file in files)
        self.limit = min(MAX_UNPACKED_BYTES, max(MAX_UNPACKED_SMALL, MAX_UNPACKED_RATIO * packed))
        self.size = self.members = 0

    def add(self, file: Path, size: int, members: int = 0) -> None:
        """Count bytes, and files and folders, of an archive."""
        self.size += size
        self.members += members
        if self.size > self.limit or self.members > MAX_ARCHIVE_MEMBERS:
            limit = f"{MAX_ARCHIVE_MEMBERS:,} files" if self.size <= self.limit else file_size(self.limit)
            raise UpdateFileError(
                f"{file} expands to more than {limit}, the limit for archives of its size; nothing was unpacked.",
                "Download the file from its publisher, or unpack it yourself if it is the right one.",
            )


class ExpandedFile:
    """An archive's content as ``tarfile`` reads it; all that is expanded is counted, also what is not extracted."""

    def __init__(self, file: BufferedIOBase, count: Callable[[int], None]) -> None:
        self.file, self.count = file, count

    def read(self, size: int = BLOCK, /) -> bytes:
        """Read at most as many bytes as a header may have; contents are read in smaller blocks."""
        if size > MAX_MEMBER_HEADER:
            raise tarfile.ReadError("the header of a member is too long")
        content = self.file.read(size)
        self.count(len(content))
        return content

    def seek(self, position: int) -> int:
        """Go to a position; to go back, what is compressed has to be expanded from its beginning."""
        before = self.file.tell()
        self.count(position - before if position >= before else position)
        return self.file.seek(position)

    def tell(self) -> int:
        """Return the position."""
        return self.file.tell()


def _add(file: Path, folder: Path, expansion: Expansion) -> None:
    if is_archive(file):
        _extract(file, folder, expansion)
        return
    try:
        os.link(file, folder / file.name)
    except OSError:  # another disk, or a file system without links
        shutil.copy2(file, folder / file.name)


def _extract(file: Path, folder: Path, expansion: Expansion) -> None:
    try:
        if file.name.lower().endswith(".zip"):
            with zipfile.ZipFile(file) as packed:
                for member in packed.infolist():
                    _check(file, member.filename)
                    expansion.add(file, member.file_size, 1)  # no more is extracted, whatever it contains
                packed.extractall(folder)
        else:  # some publishers name a plain tar .tar.gz: the content decides
            with _open_expanded(file) as content:
                source = ExpandedFile(content, partial(expansion.add, file))
                with tarfile.TarFile(fileobj=source) as packed_tar:  # type: ignore[arg-type]
                    packed_tar.extractall(folder, filter=_member_filter(file, expansion))
                while source.read(BLOCK):  # gzip compares its checksum, which follows the last member
                    pass
    except CORRUPT as error:
        raise _corrupt(file, error) from None
    except OSError as error:
        if error.errno is None:  # gzip and bz2 report damaged content this way
            raise _corrupt(file, error) from None
        raise


def _open_expanded(file: Path) -> BufferedIOBase:
    with file.open("rb") as source:
        start = source.read(5)
    return next(reader for magic, reader in READERS.items() if start.startswith(magic))(file)


def _member_filter(file: Path, expansion: Expansion) -> Callable[[tarfile.TarInfo, str], tarfile.TarInfo]:
    def check(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        _check(file, member.name)
        expansion.add(file, 0, 1)
        try:
            return tarfile.data_filter(member, folder)  # also rejects devices and links that lead outside
        except tarfile.FilterError:
            raise _escape(file, member.name) from None

    return check


def _check(file: Path, name: str) -> None:
    path = PureWindowsPath(name)  # recognizes both kinds of slash, and drives
    if path.drive or path.root or ".." in path.parts:
        raise _escape(file, name)


def _escape(file: Path, name: str) -> UpdateFileError:
    return UpdateFileError(
        f"{file} holds {name!r}, which would be written outside the target folder; nothing was unpacked.",
        "Download the file from its publisher; this one is malicious.",
    )


def _corrupt(file: Path, error: Exception) -> UpdateFileError:
    reason = " ".join(str(error).split())[:100] or type(error).__name__
    return UpdateFileError(f"{file} cannot be unpacked ({reason}).", "Delete it and download it again.")
