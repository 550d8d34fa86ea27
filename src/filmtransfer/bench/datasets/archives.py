"""Unpack published archives: completely or not at all, and never outside the target folder."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PureWindowsPath

from ...errors import InputError, UpdateFileError

BLOCK = 1 << 20
# zipfile raises RuntimeError for a password or an unknown method, ValueError for undecodable names.
CORRUPT = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    LookupError,  # a hard link to a member that is not there, a member without a name
    RuntimeError,
    ValueError,
)
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


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
    try:
        for file in files:
            _add(file, workspace)
        for inner in [path for path in sorted(workspace.rglob("*")) if path.is_file() and is_archive(path)]:
            _extract(inner, inner.parent)
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


def _add(file: Path, folder: Path) -> None:
    if is_archive(file):
        _extract(file, folder)
        return
    try:
        os.link(file, folder / file.name)
    except OSError:  # another disk, or a file system without links
        shutil.copy2(file, folder / file.name)


def _extract(file: Path, folder: Path) -> None:
    try:
        if file.name.lower().endswith(".zip"):
            with zipfile.ZipFile(file) as packed:
                for name in packed.namelist():
                    _check(file, name)
                packed.extractall(folder)
        else:  # some publishers name a plain tar .tar.gz: the content decides
            with tarfile.open(file) as packed_tar:
                packed_tar.extractall(folder, filter=_member_filter(file))
                _read_to_end(packed_tar)
    except CORRUPT as error:
        raise _corrupt(file, error) from None
    except OSError as error:
        if error.errno is None:  # gzip and bz2 report damaged content this way
            raise _corrupt(file, error) from None
        raise


def _read_to_end(packed: tarfile.TarFile) -> None:
    """Read the rest of the file, so that gzip compares its checksum, which follows the last member."""
    while packed.fileobj and packed.fileobj.read(BLOCK):
        pass


def _member_filter(file: Path) -> Callable[[tarfile.TarInfo, str], tarfile.TarInfo]:
    def check(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        _check(file, member.name)
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
