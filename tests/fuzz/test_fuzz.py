"""Every target survives some mutated inputs and those that once failed; and the fuzzer finds bugs."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fuzz.__main__ import TARGETS
from tests.fuzz.fuzzer import FOUND, fuzz
from tests.fuzz.mutation import mutate_json

ROOT = Path(__file__).parents[2]


@pytest.mark.process(seconds=20)
@pytest.mark.parametrize("name", TARGETS)
def test_a_target_survives_mutated_inputs_and_those_that_failed_before(name, tmp_path):
    for file in (FOUND / name).glob("*.bin"):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / file.name).write_bytes(file.read_bytes())
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        "--cases",
        "40",
        "--seed",
        "0",
        "--found",
        str(tmp_path),
        name,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "40 cases" in done.stdout


def target(run) -> SimpleNamespace:
    return SimpleNamespace(run=run, seeds=lambda: [b"\0" * 20], mutate=lambda data, rng: change(data, rng))


def change(data: bytes, rng: random.Random) -> bytes:
    """Replace one byte by a small one, so that few cases are needed."""
    index = rng.randrange(len(data))
    return data[:index] + bytes([rng.randrange(8)]) + data[index + 1 :]


def fail(data: bytes) -> None:
    if 3 in data:
        raise KeyError(3)


def hang(data: bytes) -> None:
    while 3 in data:
        pass


def wait(data: bytes) -> None:
    if 3 in data:
        time.sleep(60)


def work(data: bytes) -> None:
    """Take longer than an input may, but not longer than one whose coverage is recorded."""
    end = time.process_time() + 0.5
    while 3 in data and time.process_time() < end:
        pass


def allocate(data: bytes) -> None:
    if 3 in data:
        bytearray(1 << 31)


def die(data: bytes) -> None:
    if 3 in data:
        os.abort()


@pytest.mark.process(seconds=10)
@pytest.mark.parametrize(
    ("run", "kind"),
    [
        *((fail, "KeyError"), (allocate, "memory"), (die, "crash")),
        *((hang, "hang"), (wait, "hang"), (work, "hang")),
    ],
)
def test_failures_of_each_kind_are_found_and_the_run_goes_on(run, kind, monkeypatch):
    for module in ("fuzzer", "processes"):
        monkeypatch.setattr(f"tests.fuzz.{module}.SECONDS", 0.1)
    monkeypatch.setattr("tests.fuzz.processes.TRACED_SECONDS", 2.0)
    monkeypatch.setattr("tests.fuzz.processes.WAITING_SECONDS", 0.2)
    result = fuzz(target(run), 100 if kind != "hang" else 10, 0, [b"\3" * 9])
    ((outcome, data),) = result.failures.values()
    assert outcome.kind == kind
    assert result.cases >= 10
    assert data == (b"\3" * 9 if kind == "hang" else b"\3"), "it is as small as possible"


@pytest.mark.process(seconds=5)
def test_inputs_that_reach_new_lines_are_kept_so_that_a_deep_bug_is_found():
    """Four bytes have to be right at once, which chance alone does not bring about in so few cases."""
    from tests.fuzz import deep

    one = SimpleNamespace(
        run=deep.run,
        seeds=lambda: [b"\0" * 20],
        mutate=lambda data, rng: change(data, rng),
        TRACED=(deep.__file__,),
    )
    result = fuzz(one, 3000, 0, [])
    assert [outcome.kind for outcome, _ in result.failures.values()] == ["ZeroDivisionError"]
    assert result.new >= 3


def test_a_document_changes_in_one_place():
    document = {"a": [1, 2, {"b": "text"}], "c": None}
    rng = random.Random(0)
    changed = [mutate_json(document, rng) for _ in range(50)]
    assert document == {"a": [1, 2, {"b": "text"}], "c": None}
    assert sum(one != document for one in changed) > 40
