"""The suite itself: markers, time limits, and that nothing of a run is left, in small runs of their own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests import guardian

pytestmark = [
    pytest.mark.process(seconds=10),
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]
ROOT = Path(__file__).parents[1]
SLEEP = '[sys.executable, "-IS", "-c", "import time; time.sleep(1000)"]'


def start(folder: Path, code: str, *options: str, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start pytest on one test file, with the plugin of this suite and its settings."""
    file = folder / "test_small.py"
    file.write_text("import os, signal, subprocess, sys, time\nimport pytest\n" + textwrap.dedent(code))
    plugins = ("xdist.plugin", "pytest_timeout", "tests.suite", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml")]
    return subprocess.Popen(
        [*prefix, *command, *(word for name in plugins for word in ("-p", name)), str(file), *options],
        cwd=ROOT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "FIT_TEST_PATIENCE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(folder: Path, code: str, *options: str, prefix: tuple[str, ...] = ()) -> tuple[int, str]:
    process = start(folder, code, *options, prefix=prefix)
    output, _ = process.communicate(timeout=120)
    return process.returncode, output


def test_what_is_not_marked_is_a_unit_test_and_starts_no_process(tmp_path):
    code = f"""
    def test_plain(): pass
    def test_starts_one(): subprocess.run({SLEEP.replace("1000", "0")})
    @pytest.mark.process
    def test_may_start_one(): subprocess.run({SLEEP.replace("1000", "0")})
    """
    status, output = run(tmp_path, code, "-m", "unit")
    assert status == 1
    assert "mark it with pytest.mark.process" in output
    assert "1 failed, 1 passed, 1 deselected" in output
    assert run(tmp_path, code, "-m", "process")[0] == 0


def test_two_markers_are_refused(tmp_path):
    status, output = run(tmp_path, "@pytest.mark.slow\n@pytest.mark.process\ndef test_both(): pass\n")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "has the markers process, slow" in output


def test_every_test_has_a_time_limit(tmp_path):
    code = """
    def test_plain(request): assert request.node.get_closest_marker("timeout").args == (120,)
    @pytest.mark.timeout(0.2)
    def test_hangs(): time.sleep(1000)
    """
    status, output = run(tmp_path, code)
    assert status == 1
    assert "Timeout" in output
    assert "1 failed, 1 passed" in output


INTERRUPTED = """
@pytest.mark.process
def test_interrupted():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(100)
    process = subprocess.Popen([sys.executable, "-IS", "-c", "print(1, flush=True); import time; time.sleep(1000)"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with process:
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
    assert process.returncode == -signal.SIGINT
"""


@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_ctrl_c_works_where_the_run_was_started_with_it_ignored(tmp_path, options):
    status, output = run(tmp_path, INTERRUPTED, *options, prefix=("env", "--ignore-signal=INT"))
    assert status == 0, output


@pytest.mark.parametrize("options", [(), ("-n", "2")])
def test_a_process_that_is_left_fails_the_run_and_is_ended(tmp_path, options):
    code = f"""
    @pytest.mark.process
    def test_leaves_one(): subprocess.Popen({SLEEP}, start_new_session=True).returncode = 0
    @pytest.mark.process
    def test_shows_the_run(): print("RUN", os.environ["FIT_TEST_RUN"], os.environ["TMPDIR"])
    """
    status, output = run(tmp_path, code, "-rP", *options)
    assert status == 1
    assert "These processes outlived the tests" in output
    assert "time.sleep(1000)" in output
    assert nothing_is_left(*re.search(r"RUN (\S+) (\S+)", output).groups())


@pytest.mark.parametrize("options", [(), ("-n", "2")])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_survives_a_run_that_is_killed(tmp_path, options, number):
    file = tmp_path / "run"
    code = f"""
    @pytest.mark.process
    @pytest.mark.parametrize("i", range(2))
    def test_runs_for_ever(i):
        processes = [subprocess.Popen({SLEEP}), subprocess.Popen({SLEEP}, start_new_session=True)]
        with open({str(file)!r}, "w") as file:
            file.write(os.environ["FIT_TEST_RUN"] + " " + os.environ["TMPDIR"])
        time.sleep(1000)
    """
    with start(tmp_path, code, *options) as process:
        while not (file.exists() and file.read_text()):
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        run_id, folder = file.read_text().split()
        assert guardian.members(run_id)
        assert Path(folder).is_dir()
        process.send_signal(number)
        process.wait(60)
        assert nothing_is_left(run_id, folder)


def nothing_is_left(run_id: str, folder: str) -> bool:
    deadline = time.monotonic() + 30
    while guardian.members(run_id) or Path(folder).exists():
        assert time.monotonic() < deadline, guardian.members(run_id)
        time.sleep(0.05)
    return True
