"""A sweep: no run is repeated or lost, failed runs are tried again, and the others continue."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from filmtransfer.bench.recipe import Run, load_recipe
from filmtransfer.bench.report import write_report
from filmtransfer.bench.results import read_results
from filmtransfer.bench.sweep import TRIES, RunOutcome, SweepProgress, attempt_run, collect_rows, run_sweep
from filmtransfer.bench.workers import LocalWorkers
from filmtransfer.cli import main
from filmtransfer.errors import InputError, UsageError
from tests.bench.tiny import SETTINGS, HereWorkers, make_recipe, make_set, wait_until


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return make_set(tmp_path_factory.mktemp("data"))


def runs(count: int, **settings: Any) -> list[Run]:
    return [Run({**SETTINGS, **settings, "seed": seed}) for seed in range(count)]


def alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False


# With scripted workers.


def test_finished_runs_are_not_repeated(tmp_path):
    file, workers = tmp_path / "results.jsonl", HereWorkers()
    made = run_sweep(runs(3), file, lambda: workers)
    assert [row["key"] for row in made.rows] == [run.key for run in runs(3)]
    assert workers.closed == 1
    more = HereWorkers()
    made = run_sweep(runs(5), file, lambda: more)
    assert more.started == [run.key for run in runs(5)[3:]]
    assert len(made.rows) == 5
    made = run_sweep(runs(5), file, lambda: pytest.fail("there is nothing to do"))
    assert len(made.rows) == 5
    assert len(file.read_text().splitlines()) == 5


def test_rows_have_the_order_of_the_recipe_without_others(tmp_path):
    file = tmp_path / "results.jsonl"
    run_sweep(runs(4), file, HereWorkers)
    wanted = [runs(4)[2], runs(4)[0]]
    made = collect_rows(wanted, read_results(file))
    assert [row["settings"]["seed"] for row in made.rows] == [2, 0]


def test_an_error_of_the_user_is_reported_and_not_tried_again(tmp_path):
    first = runs(3)[0]
    workers = HereWorkers(outcomes={first.key: [RunOutcome(first, error="No such set.", final=True)]})
    made = run_sweep(runs(3), tmp_path / "results.jsonl", lambda: workers)
    assert workers.started.count(first.key) == 1
    assert made.failures == {str(first): "No such set."}
    assert len(made.rows) == 2


def test_other_errors_are_tried_again_and_then_recorded(tmp_path):
    one, two, three = runs(3)
    outcomes = {
        one.key: [RunOutcome(one, error="It died.")] * (TRIES - 1),
        two.key: [RunOutcome(two, error="It died.")] * (TRIES + 3),
    }
    workers = HereWorkers(outcomes=outcomes)
    made = run_sweep([one, two, three], tmp_path / "results.jsonl", lambda: workers)
    assert Counter(workers.started) == {one.key: TRIES, two.key: TRIES, three.key: 1}
    assert [row["key"] for row in made.rows] == [one.key, three.key]
    assert made.failures == {str(two): "It died."}


def test_a_failed_run_is_tried_again_by_the_next_sweep(tmp_path):
    file, first = tmp_path / "results.jsonl", runs(2)[0]
    failing = HereWorkers(outcomes={first.key: [RunOutcome(first, error="Too few images.", final=True)]})
    assert run_sweep(runs(2), file, lambda: failing).failures
    again = HereWorkers()
    made = run_sweep(runs(2), file, lambda: again)
    assert again.started == [first.key]
    assert not made.failures
    assert len(made.rows) == 2


def test_progress_names_the_runs_that_are_being_computed(tmp_path):
    seen: list[tuple[str, list[str], str]] = []
    run_sweep(
        runs(3),
        tmp_path / "results.jsonl",
        HereWorkers,  # two at a time
        lambda p: seen.append((p.started, list(p.running), p.last)),
    )
    one, two, three = map(str, runs(3))
    assert seen == [
        ("", [], ""),
        (one, [one], ""),
        (two, [one, two], ""),
        ("", [two], f"{one}: 50.0%"),
        (three, [two, three], ""),
        ("", [three], f"{two}: 50.0%"),
        ("", [], f"{three}: 50.0%"),
    ]


def test_progress_counts_old_new_and_failed(tmp_path):
    file = tmp_path / "results.jsonl"
    run_sweep(runs(1), file, HereWorkers)
    two, three = runs(4)[1:3]
    outcomes = {
        two.key: [RunOutcome(two, error="No.", final=True)],
        three.key: [RunOutcome(three, error="It died.")],
    }
    seen: list[SweepProgress] = []

    def ended(progress: SweepProgress) -> None:
        if not progress.started:
            seen.append(replace(progress))

    run_sweep(runs(4), file, lambda: HereWorkers(outcomes=outcomes), ended)
    assert [(p.total, p.done, p.new, p.failed) for p in seen] == [
        (4, 1, 0, 0), (4, 1, 0, 1), (4, 1, 0, 1), (4, 2, 1, 1), (4, 3, 2, 1),
    ]  # fmt: skip
    assert seen[0].seconds_left is None
    assert seen[1].last == f"{two}: failed: No."
    assert seen[2].last == f"{three}: It died. Trying again."
    assert seen[-1].last == f"{three}: 50.0%"
    assert seen[-1].seconds_left == 0


def test_remaining_time_is_estimated_from_the_runs_so_far():
    assert SweepProgress(total=10, done=4, new=2, failed=1, seconds=30).seconds_left == 50
    assert SweepProgress(total=10, done=4).seconds_left is None


def test_workers_are_closed_when_the_sweep_is_interrupted(tmp_path):
    workers = HereWorkers()

    def interrupted(progress: SweepProgress) -> None:
        if progress.new:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_sweep(runs(3), tmp_path / "results.jsonl", lambda: workers, interrupted)
    assert workers.closed == 1
    assert len(read_results(tmp_path / "results.jsonl").rows) == 1, "what was finished is on file"


def test_an_attempt_distinguishes_errors_of_the_user(root, monkeypatch):
    missing = attempt_run(Run({**SETTINGS, "dataset": "cifar100"}), root)
    assert missing.final
    assert missing.error.startswith("CIFAR100 is not in")
    assert attempt_run(Run({**SETTINGS, "shots": 99}), root).final
    assert attempt_run(Run({**SETTINGS, "curve": 3}), root).final
    monkeypatch.setattr("filmtransfer.bench.run.draw_task", lambda *_: 1 / 0)
    broken = attempt_run(Run(SETTINGS), root)
    assert not broken.final
    assert broken.error == "ZeroDivisionError: division by zero"


# Of real processes.


class Sabotaged(LocalWorkers):
    """Kills the process of the second run while it computes."""

    def __init__(self, root: Path) -> None:
        super().__init__(1, root, threads=1)
        self.started = 0
        self.pids: set[int] = set()

    def start(self, run: Run) -> None:
        super().start(run)
        self.started += 1
        ((pool, _),) = self.busy.values()
        (pid,) = pool._processes
        self.pids.add(pid)
        if self.started == 2:
            threading.Timer(0.2, os.kill, (pid, signal.SIGKILL)).start()


@pytest.mark.process(seconds=8)
def test_a_killed_worker_costs_a_try_and_no_process_is_left(tmp_path, root):
    # The first run warms the process up, so that the second is in the middle of its steps when it is hit.
    work = [runs(1)[0], *runs(2, steps=40)[1:]]
    made: list[Sabotaged] = []
    messages: list[str] = []

    def make() -> Sabotaged:
        made.append(Sabotaged(root))
        return made[0]

    done = run_sweep(work, tmp_path / "results.jsonl", make, lambda p: messages.append(p.last))
    _, second, *_ = filter(None, messages)
    assert second == f"{work[1]}: the worker died (killed, or out of memory). Trying again."
    assert made[0].started == 3
    assert [row["key"] for row in done.rows] == [run.key for run in work]
    assert not done.failures
    assert len(made[0].pids) == 2
    assert not any(alive(pid) for pid in made[0].pids)


@pytest.mark.process(seconds=5)
def test_a_process_that_dies_between_two_runs_is_replaced_and_close_ends_one_that_computes(root):
    workers = LocalWorkers(1, root, threads=1)
    (pool,) = workers.idle
    first = pool.submit(os.getpid).result()
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: pool._broken)
    workers.start(Run({**SETTINGS, "steps": 1_000_000}))
    ((pool, _),) = workers.busy.values()
    (second,) = pool._processes
    assert alive(second)
    workers.close()
    assert not alive(first)
    assert not alive(second)


@pytest.mark.parametrize(("slots", "threads"), [(0, None), (-1, 1), (1, 0)])
def test_zero_workers_or_threads_is_an_error(tmp_path, slots, threads):
    with pytest.raises(UsageError, match="cannot be"):
        LocalWorkers(slots, tmp_path, threads)


def test_a_second_sweep_into_one_file_is_an_error(tmp_path):
    file = tmp_path / "results.jsonl"

    def second(_: SweepProgress) -> None:
        with pytest.raises(InputError, match="Another sweep"):
            run_sweep(runs(2), file, HereWorkers)

    assert len(run_sweep(runs(1), file, HereWorkers, second).rows) == 1


ORPHAN = """
import os
import sys
from pathlib import Path
from filmtransfer.bench.recipe import Run
from filmtransfer.bench.workers import LocalWorkers
from filmtransfer.cli import main

if __name__ == "__main__":
    workers = LocalWorkers(1, Path(sys.argv[1]), threads=1)
    pid = workers.idle[0].submit(os.getpid).result()
    workers.start(Run({**%r, "steps": 1_000_000}))
    print(pid, flush=True)
    workers.next()
"""


@pytest.mark.process(seconds=8)
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_end_with_a_parent_that_was_killed(root, tmp_path):
    script = tmp_path / "orphan.py"
    script.write_text(textwrap.dedent(ORPHAN % SETTINGS))
    with subprocess.Popen(
        [sys.executable, str(script), str(root)], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        worker = int(parent.stdout.readline())
        assert alive(worker)
        parent.kill()
    wait_until(lambda: not alive(worker))


# A complete sweep: killed at a random moment, and run again.


def lines(file: Path) -> list[bytes]:
    """Return the lines of a results file, the last of which may be incomplete."""
    return file.read_bytes().splitlines(keepends=True) if file.exists() else []


def killed_sweep(arguments: list[str], out: Path, chance: random.Random) -> list[bytes]:
    """Start a sweep, kill it with its workers at a random moment after the first run, and return the stored lines."""
    enough = chance.randint(1, 5)
    log_file = out.with_suffix(".txt")
    with log_file.open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "filmtransfer", *arguments], start_new_session=True, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: len(lines(out / "results.jsonl")) >= enough or process.poll() is not None)
        time.sleep(chance.uniform(0, 0.2))
        assert process.poll() in (None, 0), log_file.read_text()
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # all of its session
        except ProcessLookupError:  # it was done
            pass
        process.wait()
    return lines(out / "results.jsonl")


@pytest.mark.process(seconds=25)
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
def test_a_sweep_killed_at_a_random_moment_resumes_to_the_same_table(root, tmp_path):
    recipe = make_recipe(tmp_path)
    experiment = load_recipe(str(recipe))
    total = len(experiment.runs())
    complete = run_sweep(
        experiment.runs(), tmp_path / "complete" / "results.jsonl", lambda: HereWorkers(root)
    )
    write_report(experiment, complete, tmp_path / "complete")

    chance = random.Random()
    for attempts in range(5):  # a machine may be so quick that all runs are done before the kill
        out = tmp_path / f"killed{attempts}"
        arguments = [
            "bench",
            "run",
            str(recipe),
            "--data-root",
            str(root),
            "--out",
            str(out),
            "--threads",
            "1",
        ]
        before = killed_sweep([*arguments, "--workers", "2"], out, chance)
        kept = [line for line in before if line.endswith(b"\n")]
        if len(kept) < total:
            break
    assert 1 <= len(kept) < total
    assert not (out / "table.md").exists(), "it was killed before its end"

    assert main(arguments) == 0
    after = lines(out / "results.jsonl")
    assert after[: len(kept)] == kept, "what was recorded before the kill is as it was"
    keys = [json.loads(line)["key"] for line in after]
    assert len(keys) == len({*keys}) == total, "nothing was done twice, nothing is missing"
    tables = {file.name for file in (tmp_path / "complete").glob("table*")}
    assert {"table.md", "table.csv", "table.tex"} <= tables == {file.name for file in out.glob("table*")}
    for name in tables:
        assert (out / name).read_bytes() == (tmp_path / "complete" / name).read_bytes()
