"""Finding the pieces of a published set in the folder where it was unpacked, and saying what is wrong with them.

People unpack archives into the folder itself or into one with the archive's name, so a piece is looked for
at the top and up to two folders down.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ...errors import InputError, UpdateFileError

DEPTH = 3


def search_patterns(*names: str) -> tuple[str, ...]:
    """Patterns for the places in which ``find_path`` looks."""
    return tuple("*/" * depth + name for name in names for depth in range(DEPTH))


def find_path(root: Path, name: str, archive: str = "") -> Path:
    """The file or folder ``name``, which may say folders too; ``archive`` is what it is published in."""
    level = [root]
    for _ in range(DEPTH):
        for folder in level:
            if (folder / name).exists():
                return folder / name
        level = [below for folder in level for below in _folders(folder)]
    hint = f"Unpack {archive} there." if archive else "Put it there, as it is published."
    raise InputError(f"There is no {name} in {root}.", hint)


def find_unzipped(root: Path, name: str) -> Path:
    """The file ``name``; if only ``name``.gz is there, it is unpacked beside it, once.

    Images are then read from their places in the file; a packed file can only be read from its beginning.
    """
    try:
        return find_path(root, name)
    except InputError:
        packed = find_path(root, f"{name}.gz")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=packed.parent) as workshop:
            whole = Path(workshop, name)
            with whole.open("wb") as out, gzip.open(packed) as source:
                shutil.copyfileobj(source, out, 1 << 20)
            whole.replace(packed.with_name(name))
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise damaged_file(packed, "it cannot be unpacked") from None
    except OSError as error:
        raise InputError(
            f"{packed} cannot be unpacked beside itself ({error.strerror}).",
            f"Put {name} there yourself (gunzip), or use a folder that can be written.",
        ) from None
    return packed.with_name(name)


def check_labels(labels: Iterable[int] | np.ndarray, classes: int, file: Path) -> np.ndarray:
    """Labels as int64, all of them below ``classes``; a file that says otherwise is not the published one."""
    array = np.asarray(labels if isinstance(labels, np.ndarray) else list(labels), dtype=np.int64)
    if len(array) == 0:
        raise damaged_file(file, "it lists no images")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= classes:
        raise damaged_file(file, f"a label is {low if low < 0 else high}, not one of 0 to {classes - 1}")
    return array


def read_text(path: Path) -> str:
    """A text file of the set."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise damaged_file(path, "it is not text") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).", "Unpack the archive again.") from None


def damaged_file(file: Path, why: str) -> UpdateFileError:
    """The error for a file that is there but cannot be what was published."""
    return UpdateFileError(f"{file} is damaged: {why}.", "Get it again from where it is published.")


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
