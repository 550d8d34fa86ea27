"""Writing files so that nothing is lost: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from .errors import InputError


def write_atomically(path: str | Path, content: bytes, *, private: bool = False) -> None:
    """Write beside the target, flush to disk, then rename over it; ``private``: for its owner's eyes only."""
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
        if not private:  # mkstemp makes files that only their owner can read
            os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _unwritable(target, error) from None
        raise
    _sync_folder(target.parent)


def check_writable(path: str | Path) -> None:
    """Find out before hours of work whether the result can be written."""
    target = Path(path)
    if target.is_dir():
        raise InputError(f"{target} is a folder.", "Give the name of a file.")
    if target.exists() and not target.is_file():
        raise InputError(f"{target} is not an ordinary file.", "Give the name of a file.")
    if not target.parent.is_dir():
        raise InputError(f"There is no folder {target.parent}.", "Make it first, or write elsewhere.")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError as error:
        raise _unwritable(target, error) from None
    os.close(handle)
    os.unlink(name)


def _unwritable(target: Path, error: OSError) -> InputError:
    return InputError(
        f"{target} cannot be written ({error.strerror}).", "Choose another place, or free some space."
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    """So that the rename itself survives a power cut; not every system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
