"""Atomic writing of files, completely or not at all, the cache folder, regular files, and the error for files that cannot be read."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from .errors import FitError, InputError
from .formatting import file_size

CACHE_VARIABLE = "FILMTRANSFER_CACHE"


def write_atomically(path: str | Path, content: bytes, *, private: bool = False) -> None:
    """Write a temporary file beside the target, flush it to disk and rename it.

    With ``private`` only the owner can read the file.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
    except OSError as error:
        raise _unwritable(target, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(target, error) from None
        raise
    with suppress(OSError):  # not every system supports it
        sync_folder(target.parent)


def open_private(path: str | Path, flags: int = os.O_WRONLY | os.O_CREAT | os.O_APPEND) -> int:
    """Open a file that only its owner can read, such as a log, also if it was made otherwise; return the descriptor."""
    handle = os.open(path, flags, 0o600)
    with suppress(OSError):  # of another owner, or on a system without modes
        os.fchmod(handle, 0o600)
    return handle


def check_writable(path: str | Path) -> None:
    """Raise an error if a file cannot be written; called before long computations."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder.", "Give the name of a file.")
    if target.exists() and not target.is_file():
        raise InputError(f"{target} is not an ordinary file.", "Give the name of a file.")
    if not target.parent.is_dir():
        raise InputError(f"There is no folder {target.parent}.", "Create it first, or write elsewhere.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _unwritable(target, error) from None
    os.close(handle)
    os.unlink(name)


def check_folder(path: str | Path) -> None:
    """Raise an error if there is no such folder."""
    if not Path(path).is_dir():
        wrong = f"{path} is not a folder." if Path(path).exists() else f"There is no folder {path}."
        raise InputError(wrong, "Check the path.")


def make_folder(folder: str | Path, *, parents: bool = False, mode: int = 0o777) -> Path:
    """Create the folder if necessary; unless ``parents``, its parent must exist: a mistyped path creates no tree."""
    path = Path(folder)
    try:
        path.mkdir(mode, parents=parents, exist_ok=True)
    except FileNotFoundError:
        raise InputError(
            f"There is no folder {path.parent}.", "Create it first, or write elsewhere."
        ) from None
    except FileExistsError:
        raise InputError(f"{path} is a file, not a folder.", "Choose another name.") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be created ({error.strerror}).", "Choose another location."
        ) from None
    return path


def _unwritable(target: Path, error: OSError) -> InputError:
    missing = isinstance(error, FileNotFoundError)
    return InputError(
        f"{target} cannot be written ({error.strerror}).",
        "Create the folder first, or write elsewhere."
        if missing
        else "Choose another location, or free some space.",
    )


def report_path(update: Path) -> Path:
    """Return the path of the report beside an update file: pets.safetensors has pets.report.html."""
    return update.with_name(f"{update.stem if update.suffix == '.safetensors' else update.name}.report.html")


def cache_folder() -> Path:
    """Return where to keep what can be made again: $FILMTRANSFER_CACHE, or the user's cache folder. It need not exist."""
    if chosen := os.environ.get(CACHE_VARIABLE):
        return Path(chosen)
    home = Path(os.path.expanduser("~"))
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "filmtransfer"


def sync_folder(folder: Path) -> None:
    """Flush the folder to disk, so that a file renamed in it survives a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading; what is no regular file is an OSError, and no pipe or device is opened."""
    _check_regular(os.stat(path), path)
    flags = (
        os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    )  # a pipe may take its place
    handle = os.open(path, flags)
    try:
        _check_regular(os.fstat(handle), path)
        return os.fdopen(handle, "rb")
    except BaseException:
        os.close(handle)
        raise


def _check_regular(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a file, which must be a regular one."""
    with open_regular(path) as file:
        return file.read()


def read_at_most(path: str | Path, limit: int, error: type[FitError] = InputError) -> bytes:
    """Return the content of a file; refuse one above ``limit`` bytes before it is read."""
    with reading(path, error=error), open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size <= limit and len(content := file.read(size + 1)) <= size:  # it may grow meanwhile
            return content
    raise error(f"{path} is larger than {file_size(limit)}, the limit.", "Check that it is the right file.")


@contextmanager
def reading(path: str | Path, hint: str = "", error: type[FitError] = InputError) -> Iterator[None]:
    """Turn an error of the operating system while ``path`` is read into one for the user."""
    try:
        yield
    except OSError as cause:
        missing = "Check the spelling." if isinstance(cause, FileNotFoundError) else ""
        raise error(f"{path} cannot be read ({cause.strerror or cause}).", hint or missing) from None
