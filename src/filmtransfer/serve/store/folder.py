"""A folder of objects, on this machine or wherever fsspec reaches.

On a local disk an object appears whole or not at all: temporary name, fsync, rename, fsync of the folder. An object
store's own writing is whole by itself.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import MissingExtraError, UsageError
from .errors import StoreDamagedError, StoreError, StoreFullError, StoreGoneError

PART = ".part"  # what is being written
FULL = (errno.ENOSPC, errno.EDQUOT)


class Folder:
    """Objects by name; names are ours, never a person's."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
            from fsspec.implementations.local import LocalFileSystem
        except ImportError:
            raise MissingExtraError("An object store", "serve") from None
        try:
            if "://" in url:
                self.system, self.root = fsspec.url_to_fs(url)
            else:  # a path, whatever characters it has
                self.system, self.root = LocalFileSystem(), str(Path(url).absolute())
        except (ValueError, ImportError) as error:
            raise UsageError(
                f"The object store cannot be opened ({error}).", "As in file:///srv/fit/objects."
            ) from None
        protocol = self.system.protocol
        self.local = "file" in ((protocol,) if isinstance(protocol, str) else protocol)
        if self.local:
            with _translated():
                Path(self.root).mkdir(parents=True, exist_ok=True, mode=0o700)

    def write(self, name: str, content: bytes) -> None:
        with _translated():
            if self.local:
                _write_local(Path(self.root), name, content)
            else:
                self.system.pipe_file(self._path(name), content)

    def read(self, name: str) -> bytes:
        with _translated():
            try:
                content: bytes = self.system.cat_file(self._path(name))
                return content
            except FileNotFoundError:
                raise StoreDamagedError(
                    "The bytes of this object are missing.", "Restore the objects from a backup."
                ) from None

    def delete(self, name: str) -> None:
        """It need not be there."""
        with _translated():
            for path in (self._path(name), self._path(name) + PART) if self.local else (self._path(name),):
                try:
                    self.system.rm_file(path)
                except FileNotFoundError:
                    pass

    def delete_folder(self, name: str) -> None:
        with _translated():
            try:
                self.system.rm(self._path(name), recursive=True)
            except FileNotFoundError:
                pass

    def ping(self) -> None:
        with _translated():
            if self.local and not os.access(self.root, os.W_OK | os.X_OK):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            self.system.exists(self.root)

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"


def _write_local(root: Path, name: str, content: bytes) -> None:
    path = root / name
    _make(path.parent, root)
    part = path.with_name(path.name + PART)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(part, path)
        _sync(path.parent)
    except OSError:
        part.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise


def _make(folder: Path, root: Path) -> None:
    """The folder, so that it survives too."""
    if folder.is_dir():
        return
    if folder != root:
        _make(folder.parent, root)
    folder.mkdir(exist_ok=True, mode=0o700)
    _sync(folder.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _translated() -> Iterator[None]:
    """An object store has many words for being away: what is not an error of ours is that."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        raise _named(error) from error


def _named(error: Any) -> StoreError:
    if getattr(error, "errno", None) in FULL:
        return StoreFullError("The disk of the objects is full.", "Free some room; nothing was written.")
    return StoreGoneError(
        f"The object store does not answer ({type(error).__name__}: {error}).", "Try again in a moment."
    )
