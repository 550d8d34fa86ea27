"""Atomic writing of files, completely or not at all, and the error for files that cannot be read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import FitError, InputError


def write_atomically(path: str | Path, content: bytes, *, private: bool = False) -> None:
    """Write a temporary file beside the target, flush it to disk and rename it.

    With ``private`` only the owner can read the file.
    """
    target = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _unwritable(target, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if not private:  # mkstemp creates files that only their owner can read
            os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(target, error) from None
        raise
    _sync_folder(target.parent)


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


def make_folder(folder: str | Path) -> Path:
    """Create the folder if necessary; its parent must exist, so that a mistyped path creates no tree."""
    path = Path(folder)
    try:
        path.mkdir(exist_ok=True)
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
    return InputError(
        f"{target} cannot be written ({error.strerror}).", "Choose another location, or free some space."
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """Flush the folder, so that the rename survives a power failure, where the system supports it."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def reading(path: str | Path, hint: str = "", error: type[FitError] = InputError) -> Iterator[None]:
    """Turn an error of the operating system while ``path`` is read into one for the user."""
    try:
        yield
    except OSError as cause:
        raise error(f"{path} cannot be read ({cause.strerror}).", hint) from None
