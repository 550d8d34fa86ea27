"""The results file: one JSON line for each run, written once and never changed.

A line is on disk (flushed and synced) before its run counts as done, so a kill loses at most the run it
interrupts. A line that a kill cut short is cut off before anything is added behind it. Lines of another format
version, and lines nobody can read, are kept where they are and not counted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import InputError
from .recipe import Run

VERSION = 1


@dataclass
class Results:
    """What a file holds: the last word on each run, and what could not be counted."""

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)  # finished runs by key
    failures: dict[str, dict[str, Any]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_results(path: Path) -> Results:
    """All that can be counted of a results file; an absent one holds nothing."""
    found = Results()
    if not path.exists():
        return found
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    lines, others, broken = text.split("\n"), 0, 0
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        row = _parse(line)
        if row is not None and row.get("version") != VERSION:
            others += 1
        elif row is None or not _has_outcome(row):
            broken += number < len(lines)  # the last one, without its end, was being written
        elif "result" in row:
            found.rows[row["key"]] = row
            found.failures.pop(row["key"], None)
        elif row["key"] not in found.rows:
            found.failures[row["key"]] = row
    if others:
        found.notes.append(
            f"{others} lines of {path} were written by another version of the format: kept, not counted."
        )
    if broken:
        found.notes.append(f"{broken} lines of {path} cannot be read: kept, not counted.")
    return found


def _parse(line: str) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and isinstance(row.get("key"), str) else None


def _has_outcome(row: dict[str, Any]) -> bool:
    """Whether a line of this version says what a line has to say."""
    whole = isinstance(row.get("settings"), dict)
    return whole and (isinstance(row.get("result"), dict) or isinstance(row.get("error"), str))


class ResultsWriter:
    """Adds lines to a results file; one writer at a time."""

    def __init__(self, path: Path, handle: int) -> None:
        self.path = path
        self.handle = handle

    def result(self, run: Run, result: Mapping[str, Any]) -> dict[str, Any]:
        return self._write(run, {"result": dict(result)})

    def failure(self, run: Run, message: str) -> dict[str, Any]:
        return self._write(run, {"error": message})

    def _write(self, run: Run, outcome: dict[str, Any]) -> dict[str, Any]:
        row = {"version": VERSION, "key": run.key, "settings": dict(run.settings), **outcome}
        content = (json.dumps(row) + "\n").encode()
        try:
            while content:
                content = content[os.write(self.handle, content) :]
            os.fsync(self.handle)
        except OSError as error:
            raise InputError(
                f"{self.path} cannot be written ({error.strerror}).",
                "What was finished before is on file; run again when there is space.",
            ) from None
        return row


@contextmanager
def open_results(path: Path) -> Iterator[ResultsWriter]:
    """A writer for ``path``, after mending an end that a kill cut short."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}).", "Choose another place with --out."
        ) from None
    try:
        if not _lock(handle):
            raise InputError(
                f"Another sweep is writing to {path}.", "Wait for it, or choose another place with --out."
            )
        _mend_end(path, handle)
        yield ResultsWriter(path, handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether nobody else writes; where a file cannot be locked (Windows), it is not looked into."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _mend_end(path: Path, handle: int) -> None:
    """Leave the file ending with a whole line, and the writing position there."""
    content = path.read_bytes()
    end = content.rfind(b"\n") + 1
    if _parse(content[end:].decode(errors="replace")) is not None:  # only its end is missing
        os.lseek(handle, 0, os.SEEK_END)
        os.write(handle, b"\n")
    else:
        os.ftruncate(handle, end)
        os.lseek(handle, end, os.SEEK_SET)
