"""Where a set lies below a data folder, and in which form. Nothing is unpacked or decoded to find out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from ...errors import InputError, UnavailableError, UsageError
from .archives import UnwritableFolderError, cache_folder, is_archive, unpack
from .catalogue import DATASETS
from .dataset import DatasetEntry, PublishedFile, RawDataset
from .parquet import find_parquet, read_parquet
from .plain_formats import has_vtab_lists, read_folders, read_lists, read_npz

Form = Literal["npz", "folders", "lists", "parquet", "published"]
UNPACKED = "unpacked"


@dataclass(frozen=True)
class DatasetLocation:
    """A set that is there: its form, where it lies, and how to read it."""

    form: Form
    place: Path
    reader: Callable[[], RawDataset]
    notes: list[str] = field(default_factory=list)

    def read(self) -> RawDataset:
        try:
            return self.reader()
        except OSError as error:
            raise InputError(_unreadable(error, self.place), "Look at the disk and the rights.") from None


@dataclass(frozen=True)
class InventoryRow:
    """A line of the inventory."""

    name: str
    title: str
    classes: int
    present: bool
    source: str  # what would be read
    why_missing: str  # what is missing, where to get it, where to put it


def find_entry(name: str) -> DatasetEntry | None:
    """The set of that name, or of that other name; None for a set of the user's own."""
    if not name or name.startswith(".") or "/" in name or "\\" in name:
        raise UsageError(f"A data set cannot be called {name!r}.", "Give a name without slashes.")
    if name in DATASETS:
        return DATASETS[name]
    return next((entry for entry in DATASETS.values() if name in entry.aliases), None)


def locate_dataset(name: str, root: str | Path) -> DatasetLocation:
    """The set as it lies below ``root``, or an error that says what to put there."""
    entry = find_entry(name)
    base = _data_folder(root)
    try:
        found = next(_forms(entry.name if entry else name, entry, base), None)
    except OSError as error:
        raise InputError(_unreadable(error, base), "Look at the rights of the data folder.") from None
    if found:
        return found
    if entry is None:
        raise UnavailableError(
            f"There is no {name}.npz and no {name}/train with {name}/test in {base}, "
            "and the catalogue does not know the name.",
            f"Known sets: {', '.join(DATASETS)}.",
        )
    raise UnavailableError(f"{entry.title} is not in {base}.", download_instructions(entry, base))


def inventory(root: str | Path) -> list[InventoryRow]:
    """For every set of the catalogue: whether it is below ``root``, and if not, what to do about it."""
    base = _data_folder(root)
    rows = []
    for entry in DATASETS.values():
        found, source, why = None, "", ""
        try:
            found = next(_forms(entry.name, entry, base), None)
            why = "" if found else download_instructions(entry, base)
        except OSError as error:
            why = _unreadable(error, base)
        if found:
            source = f"{found.form}: {found.place}"
        rows.append(InventoryRow(entry.name, entry.title, entry.classes, found is not None, source, why))
    return rows


def _data_folder(root: str | Path) -> Path:
    if not Path(root).is_dir():
        raise InputError(f"There is no data folder {root}.", "Give the folder that holds the image sets.")
    return Path(root)


def _unreadable(error: OSError, root: Path) -> str:
    return f"{error.filename or root} cannot be read ({error.strerror})."


def custom_datasets(root: str | Path) -> list[str]:
    """Names below ``root`` that can be used like those of the catalogue: sets of the user's own."""
    base = Path(root)
    packed = {file.stem for file in base.glob("*.npz")}
    folders = {p.parent.name for p in base.glob("*/train") if p.is_dir() and (p.parent / "test").is_dir()}
    return sorted(name for name in packed | folders if find_entry(name) is None)


def download_instructions(entry: DatasetEntry, root: Path) -> str:
    """Which files to get, where from, and where to put them."""
    wanted = [file.name for file in entry.files if locate_file(file, entry, root) is None] or [entry.title]
    them = "them" if len(wanted) > 1 else "it"
    return f"Get {', '.join(wanted)} from {entry.home} and put {them} in {dataset_folders(entry, root)[0]}."


def locate_file(file: PublishedFile, entry: DatasetEntry, root: Path) -> Path | None:
    """A published file in ``root/<name>``, or in that of another task on the same files, or in ``root``."""
    places = (folder / file.name for folder in (*dataset_folders(entry, root), root))
    return next((place for place in places if place.is_file()), None)


def dataset_folders(entry: DatasetEntry, root: Path) -> list[Path]:
    """The folders of all tasks on the same files, so that 18 GB of CLEVR are unpacked once for its two."""
    names = [other.name for other in DATASETS.values() if other.files == entry.files]
    return [root / name for name in names or [entry.name]]


def _forms(name: str, entry: DatasetEntry | None, root: Path) -> Iterator[DatasetLocation]:
    """The forms in which the set is there, the plainest first."""
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
    """The publisher's own form: archives, their content unpacked here before, or unpacked by hand."""
    for files in (entry.files, entry.instead):
        located = [locate_file(file, entry, root) for file in files]
        paths = [path for path in located if path]
        if not files or len(paths) < len(files):
            continue
        notes = [_size_note(file, path) for file, path in zip(files, paths, strict=True)]
        notes = [note for note in notes if note]
        folders = {path.parent for path in paths}
        if any(is_archive(path) for path in paths) or len(folders) > 1:
            yield DatasetLocation("published", paths[0], partial(_read_unpacked, entry, root, paths), notes)
        else:
            yield DatasetLocation("published", paths[0].parent, partial(entry.read, paths[0].parent), notes)
    for folder in dataset_folders(entry, root):
        for place in (folder / UNPACKED, folder):
            if _looks_unpacked(entry, place):
                yield DatasetLocation("published", place, partial(entry.read, place))


def _looks_unpacked(entry: DatasetEntry, folder: Path) -> bool:
    """Whether one of the set's signs is there; not a published file itself, as others may be missing,
    and not in a hidden folder, which is an unpacking that was cut short."""
    published = {file.name for file in (*entry.files, *entry.instead)}
    found = (path for pattern in entry.markers for path in folder.glob(pattern) if path.name not in published)
    return any(not path.relative_to(folder).parts[0].startswith(".") for path in found)


def _read_unpacked(entry: DatasetEntry, root: Path, files: list[Path]) -> RawDataset:
    """From the archives' content, unpacked the first time; elsewhere if ``root`` is read-only."""
    beside = dataset_folders(entry, root)[0] / UNPACKED
    about = "|".join(f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files)
    away = cache_folder() / f"{entry.name}-{hashlib.sha256(about.encode()).hexdigest()[:12]}"
    folder = next((folder for folder in (beside, away) if folder.is_dir()), None)
    if folder is None:
        try:
            folder = unpack(files, beside)
        except UnwritableFolderError:
            folder = unpack(files, away)
    return entry.read(folder)


def _size_note(file: PublishedFile, path: Path) -> str:
    size = path.stat().st_size
    if not file.bytes or size == file.bytes:
        return ""
    return f"{path} has {size:,} bytes; the published file has {file.bytes:,}."
