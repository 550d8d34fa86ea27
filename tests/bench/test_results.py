"""The results file: no stored row is lost, whatever happens to the end of the file or between its rows."""

from __future__ import annotations

import builtins
import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from filmtransfer.bench.recipe import Run
from filmtransfer.bench.results import open_results, read_results
from filmtransfer.errors import InputError


def run(seed: int) -> Run:
    return Run({"dataset": 'ä, "b"\n', "method": "FiT-LDA", "seed": seed})


@pytest.fixture
def file(tmp_path) -> Path:
    """Two results, written by the writer."""
    path = tmp_path / "results.jsonl"
    with open_results(path) as writer:
        writer.write_result(run(0), {"accuracy": 0.5})
        writer.write_result(run(1), {"accuracy": 1.0, "film": {"a": [0.25] * 5}})
    return path


def lines(path: Path) -> list[dict[str, Any]]:
    """Return every line, each of which has to be complete."""
    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def test_written_rows_are_read(file):
    results = read_results(file)
    assert list(results.rows) == [run(0).key, run(1).key]
    assert results.rows[run(1).key] == {
        "version": 1,
        "key": run(1).key,
        "settings": dict(run(1).settings),
        "result": {"accuracy": 1.0, "film": {"a": [0.25] * 5}},
    }
    assert not results.failures
    assert not results.notes
    assert len(lines(file)) == 2, "a line break in a name does not break the line"


def test_a_missing_file_has_no_rows(tmp_path):
    assert not read_results(tmp_path / "no.jsonl").rows


def test_a_row_is_on_disk_before_the_next_begins(tmp_path):
    path = tmp_path / "new" / "folder" / "results.jsonl"
    with open_results(path) as writer:
        for seed in range(3):
            writer.write_result(run(seed), {"accuracy": 0.5})
            assert len(lines(path)) == seed + 1


def test_an_incomplete_last_line_is_removed_and_nothing_else(file):
    content = file.read_bytes()
    first = content.index(b"\n") + 1
    for end in range(first, len(content) - 1):
        file.write_bytes(content[:end])
        assert list(read_results(file).rows) == [run(0).key], end
        assert not read_results(file).notes, "it is no news that a kill leaves half a line"
        with open_results(file) as writer:
            writer.write_result(run(1), {"accuracy": 0.75})
        assert file.read_bytes().startswith(content[:first])
        assert [line["key"] for line in lines(file)] == [run(0).key, run(1).key], end
        assert read_results(file).rows[run(1).key]["result"]["accuracy"] == 0.75


def test_a_line_without_newline_is_kept(file):
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    assert len(read_results(file).rows) == 2
    with open_results(file) as writer:
        writer.write_result(run(2), {"accuracy": 0.75})
    assert file.read_bytes().startswith(content)
    assert len(lines(file)) == 3


def test_an_incomplete_first_line(file):
    file.write_bytes(file.read_bytes()[:20])
    assert not read_results(file).rows
    with open_results(file) as writer:
        writer.write_result(run(5), {"accuracy": 0.5})
    assert [line["key"] for line in lines(file)] == [run(5).key]


def test_lines_of_another_version_are_kept_and_not_counted(file):
    theirs = json.dumps({"version": 2, "key": run(7).key, "score": 1}) + "\n"
    file.write_text(theirs + file.read_text() + theirs)
    before = file.read_bytes()
    with open_results(file) as writer:
        writer.write_result(run(2), {"accuracy": 0.5})
    results = read_results(file)
    assert list(results.rows) == [run(0).key, run(1).key, run(2).key]
    assert results.notes == [
        f"2 lines of {file} were written by another version of the format: kept, not counted."
    ]
    assert file.read_bytes().startswith(before)


GARBAGE = [
    "<<<<<<< HEAD",
    "\x00\x00\x00",
    "[1, 2]",
    "null",
    '{"version": 1}',
    '{"version": 1, "key": 3, "settings": {}, "result": {}}',
    '{"version": 1, "key": "a", "settings": {}}',
    '{"version": 1, "key": "a", "settings": {}, "result": null}',
    '{"version": 1, "key": "a", "result": {"accuracy": 1}}',
]


def test_unreadable_lines_are_kept_and_not_counted(file):
    first, second = file.read_text().splitlines(keepends=True)
    before = (first + "\n".join(GARBAGE) + "\n\n" + second).encode() + b"\xff\xfe\n"
    file.write_bytes(before)
    results = read_results(file)
    assert list(results.rows) == [run(0).key, run(1).key]
    assert not results.failures
    assert results.notes == [f"{len(GARBAGE) + 1} lines of {file} cannot be read: kept, not counted."]
    with open_results(file) as writer:
        writer.write_result(run(2), {"accuracy": 0.5})
    assert file.read_bytes().startswith(before)
    assert len(read_results(file).rows) == 3


def test_a_result_supersedes_failures_before_and_after_it(file):
    with open_results(file) as writer:
        writer.write_failure(run(0), "late")  # of a run that is done
        writer.write_failure(run(2), "once")
        writer.write_failure(run(3), "once")
        writer.write_failure(run(3), "twice")
        writer.write_result(run(2), {"accuracy": 0.25})
    results = read_results(file)
    assert {key: row["error"] for key, row in results.failures.items()} == {run(3).key: "twice"}
    assert [row["result"]["accuracy"] for row in results.rows.values()] == [0.5, 1.0, 0.25]
    assert len(lines(file)) == 7, "all of it stays on file"


def test_only_one_writer_at_a_time(file):
    with open_results(file), pytest.raises(InputError, match="Another sweep is writing"), open_results(file):
        pass
    with open_results(file) as writer:  # and the next one may
        writer.write_result(run(2), {"accuracy": 0.5})


def test_an_unwritable_file(tmp_path):
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "folder.jsonl").mkdir()
    for path in (tmp_path / "taken" / "results.jsonl", tmp_path / "folder.jsonl"):
        with pytest.raises(InputError, match="cannot be written") as caught, open_results(path):
            pass
        assert "--out" in caught.value.hint
    with pytest.raises(InputError, match="cannot be read"):
        read_results(tmp_path / "folder.jsonl")


def test_a_full_disk_loses_nothing_that_was_written(file, monkeypatch):
    before = file.read_bytes()
    write = os.write

    def full(handle: int, content: bytes) -> int:
        if len(content) > 30:
            return write(handle, content[:30])
        raise OSError(errno.ENOSPC, "No space left on device")

    with open_results(file) as writer:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(InputError, match="No space left"):
            writer.write_result(run(2), {"accuracy": 0.5})
    monkeypatch.undo()
    assert file.read_bytes().startswith(before)
    assert len(file.read_bytes()) > len(before), "half a line is there"
    with open_results(file) as writer:
        writer.write_result(run(2), {"accuracy": 0.5})
    assert [line["key"] for line in lines(file)] == [run(0).key, run(1).key, run(2).key]


def test_writing_without_file_locks(file, monkeypatch):
    """Windows has no fcntl."""
    load = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "fcntl":
            raise ImportError(name)
        return load(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with open_results(file) as writer:
        writer.write_result(run(2), {"accuracy": 0.5})
    assert len(lines(file)) == 3
