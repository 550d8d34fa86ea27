"""How the tests are sorted, started, limited in time and ended: a pytest plugin, loaded by ``conftest.py``.

Every test has exactly one of the markers of ``LIMITS``. Some follow from ``FIXTURES``, ``unit`` is what is not marked
otherwise, and a unit test that starts a process fails. ``process(seconds=…)`` and
``slow(seconds=…)`` state what a test or a file costs: the expensive ones start first.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests import guardian

LIMITS = {"unit": 120, "slow": 300, "process": 420, "browser": 420}  # seconds until a test fails
FIXTURES = {"browser": "browser", "cluster": "process"}  # what the users of a fixture are
PATIENCE = float(os.environ.get("FIT_TEST_PATIENCE", "20"))  # seconds for the last processes to end
STARTS = ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system")  # audit events
ASKED_BY_LIBRARIES = (
    ("/bin/sh",),
    ("fc-list",),
)  # about the machine: its kind, and fonts (matplotlib's first import)
HELPERS = "from multiprocessing."  # the resource tracker and fork server, which end with their process

folder_key = pytest.StashKey[Path]()
_started: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Give the run its id, its temporary folder and its guardian; workers of xdist inherit them."""
    sys.addaudithook(_record_start)
    sources = [str(Path(__file__).parents[1] / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(sources)  # of this clone, whatever is installed
    if hasattr(config, "workerinput"):
        return
    root = os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", _temporary_root())  # of tmp_path
    folder = Path(tempfile.mkdtemp(prefix="fit-", dir=root))
    os.environ["FILMTRANSFER_CACHE"] = str(folder / "cache")  # graphs are made once in a run, and not kept
    if sys.platform != "linux":
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        return
    run = f"{os.getpid()}-{secrets.token_hex(4)}"
    folder.chmod(0o711)  # PostgreSQL runs as somebody else when the tests run as root
    os.environ[guardian.VARIABLE] = run
    os.environ["TMPDIR"] = os.environ["RAY_TMPDIR"] = tempfile.tempdir = str(folder)
    os.environ["FLWR_HOME"] = str(folder / "flower")
    config.stash[folder_key] = folder
    parent = os.environ.pop("FIT_TEST_PARENT", None)  # make, for example: the run ends with it
    pids = [os.getpid(), *([int(parent)] if parent else [])]
    guardian.start(run, folder, pids)


def _temporary_root() -> str:
    """Return a folder in memory if there is room: on some disks it takes longer to delete a file than to test."""
    memory = Path("/dev/shm")
    large = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4e9
    return str(memory) if large else tempfile.gettempdir()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail a run that leaves a process behind."""
    yield
    if folder_key not in session.config.stash:
        return
    deadline = time.monotonic() + PATIENCE
    while (left := _left_over()) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        lines = "".join(f"\n  {pid}: {command[:200]}" for pid, command in left.items())
        sys.stderr.write(f"\nThese processes outlived the tests:{lines}\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _left_over() -> dict[int, str]:
    alive = guardian.members(os.environ[guardian.VARIABLE])
    return {pid: command for pid, command in alive.items() if HELPERS not in command}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test its marker and its time limit."""
    for item in items:
        kind = _kind(item)
        if not item.get_closest_marker(kind):
            item.add_marker(kind)
        if not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LIMITS[kind]))


def _kind(item: pytest.Item) -> str:
    kinds = {mark.name for mark in item.iter_markers() if mark.name in LIMITS}
    kinds |= {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    if len(kinds) > 1:
        raise pytest.UsageError(f"{item.nodeid} has the markers {', '.join(sorted(kinds))}; one is allowed.")
    return kinds.pop() if kinds else "unit"


@pytest.hookimpl(tryfirst=True)  # before xdist reports the collection
def pytest_collection_finish(session: pytest.Session) -> None:
    """In a worker of xdist, order the tests by the cost of their groups and tell the scheduler the groups."""
    if not hasattr(session.config, "workerinput"):
        return
    groups = {item.nodeid: _group(item) for item in session.items}
    costs: Counter[str] = Counter()
    for item in session.items:
        costs[groups[item.nodeid]] = max(costs[groups[item.nodeid]], _cost(item))
    session.items.sort(key=lambda item: costs[groups[item.nodeid]], reverse=True)
    file = _groups_file()
    part = file.with_name(f"groups-{os.getpid()}")
    part.write_text(json.dumps(groups))
    part.replace(file)


def _group(item: pytest.Item) -> str:
    """Return what runs together in one worker: the tests of a file, except those that state their own cost."""
    group = item.get_closest_marker("xdist_group")
    if group:
        return str(group.args[0])
    alone = any("seconds" in mark.kwargs for mark in item.own_markers)
    return item.nodeid if alone else item.nodeid.partition("::")[0]


def _cost(item: pytest.Item) -> float:
    """Return the seconds that the nearest marker states."""
    seconds = (mark.kwargs["seconds"] for mark in item.iter_markers() if "seconds" in mark.kwargs)
    return next(seconds, 0.0)


def _groups_file() -> Path:
    return Path(os.environ["TMPDIR"]) / "groups.json"


class Scheduling(LoadScopeScheduling):
    """Distribute the tests by group; ``--dist loadgroup`` of xdist 3.8 does not work with pytest 9.2."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def _split_scope(self, nodeid: str) -> str:
        return self.groups[nodeid]

    @cached_property
    def groups(self) -> dict[str, str]:
        return json.loads(_groups_file().read_text())


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    return Scheduling(config, log)


@pytest.fixture(autouse=True, scope="session")
def _interruptible() -> Iterator[None]:
    """Handle SIGINT also in a run that was started with SIGINT ignored (``make test &`` in a script).

    A handler becomes the default in every program that a test starts; an ignored signal would stay ignored.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _record_start(event: str, arguments: tuple[object, ...]) -> None:
    if event in STARTS and arguments[:1] not in ASKED_BY_LIBRARIES:
        _started.append(f"{event} {arguments[0] if arguments else ''}".strip())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    _started.clear()
    yield
    _refuse_processes(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    yield
    _refuse_processes(item)


def _refuse_processes(item: pytest.Item) -> None:
    if _started and (item.get_closest_marker("unit") or item.get_closest_marker("slow")):
        pytest.fail(f"This test starts a process ({_started[0]}): mark it with pytest.mark.process.")
