"""The results file: one JSON line per run, which is written once and never changed.

A line is on disk (flushed and synced) before its run counts as done, so a kill loses at most the interrupted run. A
line that a kill left incomplete is removed before the next one is appended. Lines of another format version, and
unreadable lines, are kept in the file and not counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import InputError
from ..files import reading
from .recipe import Run
from .rows import Row, RunResult, quantity

VERSION = 1


@dataclass
class Results:
    """The content of a results file: the last row of each run, and notes on lines that were not counted."""

    rows: dict[str, Row] = field(default_factory=dict)  # finished runs by key
    failures: dict[str, Row] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_results(path: Path) -> Results:
    """Read a results file; a missing file has no rows."""
    results = Results()
    if not path.exists():
        return results
    with reading(path):
        text = path.read_text(encoding="utf-8", errors="replace")
    lines, other_versions, unreadable = text.split("\n"), 0, 0
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        row = _parse(line)
        if row is not None and row.get("version") != VERSION:
            other_versions += 1
        elif row is None or not _is_complete(row):
            unreadable += number < len(lines)  # the last line, without a newline, was being written
        elif "result" in row:
            results.rows[row["key"]] = row
            results.failures.pop(row["key"], None)
        elif row["key"] not in results.rows:
            results.failures[row["key"]] = row
    if other_versions:
        were = "was" if other_versions == 1 else "were"
        results.notes.append(
            f"{quantity(other_versions, 'line')} of {path} {were} written by another version of the format: "
            "kept, not counted."
        )
    if unreadable:
        results.notes.append(f"{quantity(unreadable, 'line')} of {path} cannot be read: kept, not counted.")
    return results


def _parse(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("key"), str) else None


def _is_complete(row: Row) -> bool:
    """Return whether a row has settings, and a result or an error."""
    has_settings = isinstance(row.get("settings"), dict)
    return has_settings and (isinstance(row.get("result"), dict) or isinstance(row.get("error"), str))


class ResultsWriter:
    """Append rows to a results file; only one writer can be open at a time."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle

    def write_result(self, run: Run, result: RunResult) -> None:
        """Append the result of a finished run."""
        self._write(run, {"result": dict(result)})

    def write_failure(self, run: Run, message: str) -> None:
        """Append the error of a failed run."""
        self._write(run, {"error": message})

    def _write(self, run: Run, outcome: dict[str, object]) -> None:
        row = {"version": VERSION, "key": run.key, "settings": dict(run.settings), **outcome}
        content = (json.dumps(row) + "\n").encode()
        try:
            while content:
                content = content[os.write(self.handle, content) :]
            os.fsync(self.handle)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written ({error.strerror}).",
                "Finished runs are stored; run again when there is space.",
            ) from None


@contextmanager
def open_results(path: Path) -> Iterator[ResultsWriter]:
    """Open a results file for appending, after removing an incomplete last line."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}).", "Choose another folder with --out."
        ) from None
    try:
        if not _lock(handle):
            raise InputError(
                f"Another sweep is writing to {path}.",
                "Wait until it ends, or choose another folder with --out.",
            )
        _repair_end(path, handle)
        yield ResultsWriter(path, handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock the file; return False if another process holds the lock. Without fcntl (Windows) nothing is locked."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _repair_end(path: Path, handle: int) -> None:
    """Make the file end with a complete line, and move the write position there."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if _parse(content[end:].decode(errors="replace")) is not None:  # only the newline is missing
        os.lseek(handle, 0, os.SEEK_END)
        os.write(handle, b"\n")
    else:
        os.ftruncate(handle, end)
        os.lseek(handle, end, os.SEEK_SET)
