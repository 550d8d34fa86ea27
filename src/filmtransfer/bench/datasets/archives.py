"""Unpacking published archives: whole or not at all, and nothing outside the folder they belong in."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath

from ...errors import InputError, UpdateFileError

BLOCK = 1 << 20
# RuntimeError is zipfile's for a password or an unknown method, ValueError covers names that are no text.
CORRUPT = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    ValueError,
)
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


class UnwritableFolderError(InputError):
    """The folder to unpack into cannot be made; another may do."""


def is_archive(file: Path) -> bool:
    return file.name.lower().endswith(SUFFIXES)


def cache_folder() -> Path:
    """Where to unpack when the data folder cannot be written: $FILMTRANSFER_CACHE, or ~/.cache."""
    chosen = os.environ.get("FILMTRANSFER_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "filmtransfer" / "datasets"


def unpack(files: Sequence[Path], folder: Path) -> Path:
    """Unpack archives, and lay other files beside their content, so that ``folder`` appears at once.

    An archive inside an archive is unpacked too (Caltech publishes a zip of tars).
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise UnwritableFolderError(
            f"{folder} cannot be made ({error.strerror}).", "Choose a data folder that can be written."
        ) from None
    try:
        for file in files:
            _place(file, workshop)
        for inner in [path for path in sorted(workshop.rglob("*")) if path.is_file() and is_archive(path)]:
            _extract(inner, inner.parent)
            inner.unlink()
        workshop.chmod(0o755)  # mkdtemp's are for their owner only
        workshop.rename(folder)
        return folder
    except OSError as error:
        if folder.is_dir():  # another process was faster: its work is as good
            return folder
        raise InputError(
            f"{files[0]} cannot be unpacked into {folder} ({error.strerror or error}).",
            "Free some space, or choose another data folder.",
        ) from None
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _place(file: Path, folder: Path) -> None:
    if is_archive(file):
        _extract(file, folder)
        return
    try:
        os.link(file, folder / file.name)
    except OSError:  # another disk, or a system without links
        shutil.copy2(file, folder / file.name)


def _extract(file: Path, folder: Path) -> None:
    try:
        if file.name.lower().endswith(".zip"):
            with zipfile.ZipFile(file) as packed:
                for name in packed.namelist():
                    _check(file, name)
                packed.extractall(folder)
        else:  # some publishers call a plain tar .tar.gz: the content decides
            with tarfile.open(file) as packed_tar:
                packed_tar.extractall(folder, filter=_member(file))
                _read_on(packed_tar)
    except CORRUPT as error:
        raise _corrupt(file, error) from None
    except OSError as error:
        if error.errno is None:  # gzip's and bz2's way to say that the content is wrong
            raise _corrupt(file, error) from None
        raise


def _read_on(packed: tarfile.TarFile) -> None:
    """To the end of the stream: a gzip's checksum stands behind the last member, where tarfile stops."""
    while packed.fileobj and packed.fileobj.read(BLOCK):
        pass


def _member(file: Path):  # type: ignore[no-untyped-def]  # tarfile's filters have no public type
    def check(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
        _check(file, member.name)
        try:
            return tarfile.data_filter(member, folder)  # also refuses devices and links that lead outside
        except tarfile.FilterError:
            raise _escape(file, member.name) from None

    return check


def _check(file: Path, name: str) -> None:
    path = PureWindowsPath(name)  # knows both kinds of slash, and drives
    if path.drive or path.root or ".." in path.parts:
        raise _escape(file, name)


def _escape(file: Path, name: str) -> UpdateFileError:
    return UpdateFileError(
        f"{file} holds {name!r}, which would be written outside its folder; nothing was unpacked.",
        "Get the file from its publisher; this one was made to do harm.",
    )


def _corrupt(file: Path, error: Exception) -> UpdateFileError:
    why = " ".join(str(error).split())[:100] or type(error).__name__
    return UpdateFileError(f"{file} cannot be unpacked ({why}).", "Delete it and get it again.")
