"""Find where a dataset is stored below a data folder, and in which form, without unpacking or decoding it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from ...errors import InputError, UnavailableError, UsageError
from ...files import cache_folder
from .archives import UnwritableFolderError, is_archive, unpack
from .catalogue import DATASETS
from .dataset import DatasetEntry, PublishedFile, RawDataset
from .parquet import find_parquet, read_parquet
from .plain_formats import has_vtab_lists, read_folders, read_lists, read_npz

Form = Literal["npz", "folders", "lists", "parquet", "published"]
UNPACKED = "unpacked"


@dataclass(frozen=True)
class DatasetLocation:
    """The location of a dataset: its form, its path, and how to read it."""

    form: Form
    path: Path
    reader: Callable[[], RawDataset]
    notes: list[str] = field(default_factory=list)

    def read(self) -> RawDataset:
        """Read the dataset."""
        try:
            return self.reader()
        except OSError as error:
            raise InputError(_unreadable(error, self.path), "Check the disk and the access rights.") from None


@dataclass(frozen=True)
class InventoryRow:
    """Whether a dataset of the catalogue is present below a data folder."""

    name: str
    title: str
    classes: int
    present: bool
    source: str  # what would be read
    why_missing: str  # what is missing, where to get it, where to put it


def find_entry(name: str) -> DatasetEntry | None:
    """Return the catalogue entry with that name or alias; None for a dataset of the user."""
    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise UsageError(f"A dataset cannot be named {name!r}.", "Use a name without slashes.")
    if name in DATASETS:
        return DATASETS[name]
    return next((entry for entry in DATASETS.values() if name in entry.aliases), None)


def locate_dataset(name: str, root: str | Path) -> DatasetLocation:
    """Return the location of the dataset below ``root``; the error says which files to put there."""
    entry = find_entry(name)
    base = _data_folder(root)
    try:
        location = next(_locations(entry.name if entry else name, entry, base), None)
    except OSError as error:
        raise InputError(_unreadable(error, base), "Check the access rights of the data folder.") from None
    if location:
        return location
    if entry is None:
        raise UnavailableError(
            f"There is no {name}.npz and no {name}/train with {name}/test in {base}, "
            "and the name is not in the catalogue.",
            f"Known datasets: {', '.join(DATASETS)}.",
        )
    raise UnavailableError(f"{entry.title} is not in {base}.", download_instructions(entry, base))


def inventory(root: str | Path) -> list[InventoryRow]:
    """Return for every dataset of the catalogue whether it is below ``root`` and, if not, how to get it."""
    base = Path(root)
    if base.exists():
        _data_folder(base)  # an error for a file
    rows = []
    for entry in DATASETS.values():
        location, reason = None, ""
        try:
            location = next(_locations(entry.name, entry, base), None)
            reason = "" if location else download_instructions(entry, base)
        except OSError as error:
            reason = _unreadable(error, base)
        source = f"{location.form}: {location.path}" if location else ""
        rows.append(InventoryRow(entry.name, entry.title, entry.classes, bool(location), source, reason))
    return rows


def _data_folder(root: str | Path) -> Path:
    if not Path(root).is_dir():
        raise InputError(f"There is no data folder {root}.", "Name the folder of the datasets (--data-root).")
    return Path(root)


def _unreadable(error: OSError, root: Path) -> str:
    return f"{error.filename or root} cannot be read ({error.strerror})."


def custom_datasets(root: str | Path) -> list[str]:
    """Return the names of datasets below ``root`` that are not in the catalogue but can be used by name."""
    base = Path(root)
    packed = {file.stem for file in base.glob("*.npz")}
    folders = {p.parent.name for p in base.glob("*/train") if p.is_dir() and (p.parent / "test").is_dir()}
    return sorted(name for name in packed | folders if find_entry(name) is None)


def download_instructions(entry: DatasetEntry, root: Path) -> str:
    """Return which files to download from where, and where to put them."""
    missing = [file.name for file in entry.files if locate_file(file, entry, root) is None] or [entry.title]
    them = "them" if len(missing) > 1 else "it"
    return f"Download {', '.join(missing)} from {entry.home} and put {them} in {dataset_folders(entry, root)[0]}."


def locate_file(file: PublishedFile, entry: DatasetEntry, root: Path) -> Path | None:
    """Return the path of a published file in ``root/<name>``, in the folder of a task on the same files, or in ``root``."""
    paths = (folder / file.name for folder in (*dataset_folders(entry, root), root))
    return next((path for path in paths if path.is_file()), None)


def dataset_folders(entry: DatasetEntry, root: Path) -> list[Path]:
    """Return the folders of all tasks on the same files, so that 18 GB of CLEVR are unpacked once for both tasks."""
    names = [other.name for other in DATASETS.values() if other.files == entry.files]
    return [root / name for name in names or [entry.name]]


def _locations(name: str, entry: DatasetEntry | None, root: Path) -> Iterator[DatasetLocation]:
    """Yield the locations of the dataset, the simplest form first."""
    packed, folder = root / f"{name}.npz", root / name
    if packed.is_file():
        yield DatasetLocation("npz", packed, partial(read_npz, packed))
    if (folder / "train").is_dir() and (folder / "test").is_dir() and _has_folders(folder / "train"):
        yield DatasetLocation("folders", folder, partial(read_folders, folder))
    names = (name, *(entry.aliases if entry else ()))
    for lists in [folder, *(root / "vtab-1k" / other for other in names)]:
        if has_vtab_lists(lists):
            yield DatasetLocation("lists", lists, partial(read_lists, lists, entry.classes if entry else 0))
    if folder.is_dir() and find_parquet(folder):
        yield DatasetLocation("parquet", folder, partial(read_parquet, folder))
    if entry:
        yield from _published(entry, root)


def _has_folders(folder: Path) -> bool:
    return any(child.is_dir() and not child.name.startswith(".") for child in folder.iterdir())


def _published(entry: DatasetEntry, root: Path) -> Iterator[DatasetLocation]:
    """Yield the locations in the published form: archives, or their content, unpacked by us or by the user."""
    for files in (entry.files, entry.instead):
        located = [locate_file(file, entry, root) for file in files]
        paths = [path for path in located if path]
        if not files or len(paths) < len(files):
            continue
        notes = [
            f"{path} has {size:,} bytes; the published file has {file.bytes:,}."
            for file, path in zip(files, paths, strict=True)
            if (size := path.stat().st_size) != file.bytes and file.bytes
        ]
        folders = {path.parent for path in paths}
        if any(is_archive(path) for path in paths) or len(folders) > 1:
            yield DatasetLocation("published", paths[0], partial(_read_unpacked, entry, root, paths), notes)
        else:
            yield DatasetLocation("published", paths[0].parent, partial(entry.read, paths[0].parent), notes)
    for folder in dataset_folders(entry, root):
        for path in (folder / UNPACKED, folder):
            if _looks_unpacked(entry, path):
                yield DatasetLocation("published", path, partial(entry.read, path))


def _looks_unpacked(entry: DatasetEntry, folder: Path) -> bool:
    """Return whether a marker of the unpacked dataset exists.

    A published file does not count, since others may be missing, nor does a hidden folder, which an interrupted
    unpacking leaves behind.
    """
    published = {file.name for file in (*entry.files, *entry.instead)}
    matches = (
        path for pattern in entry.markers for path in folder.glob(pattern) if path.name not in published
    )
    return any(not path.relative_to(folder).parts[0].startswith(".") for path in matches)


def _read_unpacked(entry: DatasetEntry, root: Path, files: list[Path]) -> RawDataset:
    """Read the unpacked archives; unpack them first if needed, into the cache folder if ``root`` is read-only."""
    local = dataset_folders(entry, root)[0] / UNPACKED
    content = "|".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
    cached = cache_folder() / "datasets" / f"{entry.name}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
    folder = next((folder for folder in (local, cached) if folder.is_dir()), None)
    if folder is None:
        try:
            folder = unpack(files, local)
        except UnwritableFolderError:
            folder = unpack(files, cached)
    return entry.read(folder)
