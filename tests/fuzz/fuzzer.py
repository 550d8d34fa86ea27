"""The loop: mutate inputs, keep those that reach new lines, confirm, minimise and store those that fail."""

from __future__ import annotations

import hashlib
import io
import random
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from tests.fuzz.mutation import mutate_bytes
from tests.fuzz.processes import SECONDS, Edge, Outcome, run_inputs

FOUND = Path(__file__).parent / "found"  # inputs that failed once; every run begins with them
BATCH = 50  # inputs of one child process
NEWEST = 32  # inputs, one of which is mutated in half of the cases
MINIMISING = 300  # inputs that are tried to make a failing one smaller


@dataclass
class Result:
    """What fuzzing a target has brought."""

    cases: int = 0
    seconds: float = 0.0
    new: int = 0  # inputs that reached new lines
    failures: dict[tuple[str, str], tuple[Outcome, bytes]] = field(default_factory=dict)
    unconfirmed: int = 0  # failures that did not happen again with the same input alone


def found_inputs(name: str, folder: Path = FOUND) -> list[Path]:
    """Return the stored inputs of a target."""
    return sorted((folder / name).glob("*.bin"))


def fuzz(target: ModuleType, cases: int, seed: int, stored: list[bytes]) -> Result:
    """Run the seeds, the stored inputs, and ``cases`` mutations of what reached new lines."""
    rng, result, start = random.Random(seed), Result(), time.monotonic()
    known: set[Edge] = set()
    corpus: list[bytes] = []
    first = [*target.seeds(), *stored]
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        target.run(first[0])  # what is imported now need not be imported in each child
    traced = getattr(target, "TRACED", ())
    batch = first
    while batch:
        outcomes = run_inputs(target.run, batch, known=known, traced=traced)
        for data, outcome in zip(batch, outcomes, strict=True):
            known |= outcome.edges
            if outcome.kind or outcome.seconds > SECONDS:
                _record(target, data, outcome, result)
            elif outcome.edges or batch is first:
                corpus.append(data)
                result.new += batch is not first
        result.cases += 0 if batch is first else len(batch)
        corpus = corpus or [first[0]]
        batch = [_mutated(target, corpus, rng) for _ in range(min(BATCH, cases - result.cases))]
    result.seconds = time.monotonic() - start
    return result


def _mutated(target: ModuleType, corpus: list[bytes], rng: random.Random) -> bytes:
    data = rng.choice(corpus if rng.random() < 0.5 else corpus[-NEWEST:])
    if hasattr(target, "mutate") and rng.random() < 0.7:
        return target.mutate(data, rng)
    return mutate_bytes(data, corpus, rng)


def _record(target: ModuleType, data: bytes, outcome: Outcome, result: Result) -> None:
    """Record a failure that happens again without tracing and without the inputs before it."""
    if outcome.failure and outcome.failure in result.failures:
        return
    (again,) = run_inputs(target.run, [data])
    if again.failure is None:
        result.unconfirmed += bool(outcome.kind)
    elif again.failure not in result.failures:
        result.failures[again.failure] = again, minimise(target, data, again)


def minimise(target: ModuleType, data: bytes, outcome: Outcome) -> bytes:
    """Return the input without the parts that the failure does not need."""
    if outcome.kind == "hang":  # each attempt would take seconds
        return data
    tried, size = 0, max(1, len(data) // 2)
    while tried < MINIMISING:
        smaller = [data[:i] + data[i + size :] for i in range(0, len(data), size)][: MINIMISING - tried]
        for candidate, again in zip(smaller, run_inputs(target.run, smaller), strict=False):
            tried += 1
            if again.failure == outcome.failure:
                data = candidate
                break
        else:
            if size == 1:
                break
            size //= 2
    return data


def store(name: str, data: bytes, folder: Path = FOUND) -> Path:
    """Write an input to ``found``, from where every later run repeats it."""
    file = folder / name / f"{hashlib.sha256(data).hexdigest()[:16]}.bin"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file
