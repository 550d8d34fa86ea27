"""Find, read and check the files of a published dataset in the folder where it was unpacked.

An archive may be unpacked into the folder itself or into one with the archive's name, so files are searched for
at the top level and up to two folders down.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from ...errors import InputError, UpdateFileError
from ...files import reading
from .archives import BLOCK, ExpandedFile, Expansion

DEPTH = 3


def search_patterns(*names: str) -> tuple[str, ...]:
    """Return glob patterns for all locations that ``find_path`` searches."""
    return tuple("*/" * depth + name for name in names for depth in range(DEPTH))


def find_path(root: Path, name: str, archive: str = "") -> Path:
    """Return the file or folder ``name``, which may include folders; ``archive`` is the archive that contains it."""
    level = [root]
    for _ in range(DEPTH):
        for folder in level:
            if (folder / name).exists():
                return folder / name
        level = [below for folder in level for below in _folders(folder)]
    hint = f"Unpack {archive} there." if archive else "Put the published file there."
    raise InputError(f"There is no {name} in {root}.", hint)


def find_unzipped(root: Path, name: str) -> Path:
    """Return the file ``name``; if there is only ``name``.gz, unpack it next to the archive, once.

    Single images are then read at their offset; a compressed file can only be read from its beginning.
    """
    try:
        return find_path(root, name)
    except InputError:
        packed = find_path(root, f"{name}.gz")
    try:
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=packed.parent) as workspace:
            unpacked = Path(workspace, name)
            with unpacked.open("wb") as out, gzip.open(packed) as source:
                content = ExpandedFile(source, partial(Expansion([packed]).add, packed))
                shutil.copyfileobj(content, out, BLOCK)
            unpacked.replace(packed.with_name(name))
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise damaged_file(packed, "it cannot be unpacked") from None
    except OSError as error:
        raise InputError(
            f"{packed} cannot be unpacked in its folder ({error.strerror}).",
            f"Unpack {name} there yourself (gunzip), or use a writable folder.",
        ) from None
    return packed.with_name(name)


def check_labels(labels: Iterable[int] | np.ndarray, classes: int, file: Path) -> np.ndarray:
    """Return the labels as int64; raise an error if ``file`` has none or one outside 0 … ``classes`` − 1."""
    array = np.asarray(labels if isinstance(labels, np.ndarray) else list(labels), dtype=np.int64)
    if len(array) == 0:
        raise damaged_file(file, "it lists no images")
    low, high = int(array.min()), int(array.max())
    if low < 0 or high >= classes:
        raise damaged_file(file, f"a label is {low if low < 0 else high}, not one of 0 to {classes - 1}")
    return array


def require_files(paths: Sequence[Path], list_file: Path) -> None:
    """Raise an error if an image that a list names is missing: an incomplete copy is no benchmark."""
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise InputError(
            f"{len(missing)} of the {len(paths)} images in {list_file} are missing, the first: {missing[0]}.",
            "Unpack the published archive again, completely.",
        )


def read_text(path: Path) -> str:
    """Return the content of a text file of the dataset."""
    try:
        with reading(path, "Unpack the archive again."):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise damaged_file(path, "it is not text") from None


def read_lines(file: Path) -> list[str]:
    """Return the lines of a text file that are neither empty nor a comment."""
    lines = (line.strip() for line in read_text(file).splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def damaged_file(file: Path, reason: str) -> UpdateFileError:
    """Return the error for a file whose content cannot be the published one."""
    return UpdateFileError(f"{file} is damaged: {reason}.", "Download it again from its publisher.")


@contextmanager
def damaged_by(file: Path, *errors: type[Exception]) -> Iterator[None]:
    """Turn these errors of a library into the error for a damaged file."""
    try:
        yield
    except errors as error:
        raise damaged_file(file, one_line(error)) from None


def one_line(error: Exception) -> str:
    """Return the message of a library's error as part of one line."""
    return " ".join(str(error).split())[:100].rstrip(".") or type(error).__name__


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return sorted(folder / entry.name for entry in entries if entry.is_dir())
    except OSError:
        return []
