"""A folder of objects on a local disk, or at any URL that fsspec supports.

On a local disk writing is atomic: temporary name, fsync, rename, fsync of the folder. Object stores write atomically by
themselves.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...errors import MissingExtraError, UsageError
from ...files import sync_folder
from .errors import StoreDamagedError, StoreError, StoreFullError, StoreUnavailableError

PART = ".part"  # suffix of a file that is being written
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class ObjectFolder:
    """Objects by name; the names are generated, never chosen by a person."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
            from fsspec.implementations.local import LocalFileSystem
        except ImportError:
            raise MissingExtraError("An object store", "serve") from None
        try:
            if "://" in url:
                self.system, self.root = fsspec.url_to_fs(url)
            else:  # a path, which may contain any characters
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
        """Write an object atomically."""
        with _translated():
            if self.local:
                _write_local(Path(self.root), name, content)
            else:
                self.system.pipe_file(self._path(name), content)

    def read(self, name: str) -> bytes:
        """Return the bytes of an object."""
        with _translated():
            try:
                content: bytes = self.system.cat_file(self._path(name))
                return content
            except FileNotFoundError:
                raise StoreDamagedError(
                    "The bytes of this object are missing.", "Restore the objects from a backup."
                ) from None

    def delete(self, name: str) -> None:
        """Delete an object if it exists."""
        with _translated():
            for path in (self._path(name), self._path(name) + PART) if self.local else (self._path(name),):
                with suppress(FileNotFoundError):
                    self.system.rm_file(path)

    def delete_folder(self, name: str) -> None:
        """Delete a folder if it exists."""
        with _translated(), suppress(FileNotFoundError):
            self.system.rm(self._path(name), recursive=True)

    def ping(self) -> None:
        """Raise ``StoreUnavailableError`` unless the folder can be written."""
        with _translated():
            if self.local and not os.access(self.root, os.W_OK | os.X_OK):
                raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
            self.system.exists(self.root)

    def free_bytes(self) -> int | None:
        """Return how much space the disk has left; None for an object store, which does not tell."""
        with _translated():
            return shutil.disk_usage(self.root).free if self.local else None

    def _path(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}"


def _write_local(root: Path, name: str, content: bytes) -> None:
    path = root / name
    _make_folder(path.parent, root)
    part = path.with_name(path.name + PART)
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        try:
            remaining = memoryview(content)
            while remaining:
                remaining = remaining[os.write(handle, remaining) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(part, path)
        sync_folder(path.parent)
    except OSError:
        part.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        raise


def _make_folder(folder: Path, root: Path) -> None:
    """Make a folder that survives a power failure."""
    if folder.is_dir():
        return
    if folder != root:
        _make_folder(folder.parent, root)
    folder.mkdir(exist_ok=True, mode=0o700)
    sync_folder(folder.parent)


@contextmanager
def _translated() -> Iterator[None]:
    """Translate exceptions to the store's errors; object stores have many for being unavailable."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        if getattr(error, "errno", None) in DISK_FULL:
            raise StoreFullError(
                "The disk of the objects is full.", "Free some space; nothing was written."
            ) from error
        raise StoreUnavailableError(
            f"The object store does not respond ({type(error).__name__}: {error}).", "Try again in a moment."
        ) from error
