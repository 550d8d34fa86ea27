"""A full disk can be emptied, and a service on it ends as usual."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]


def may_mount(folder: Path) -> bool:
    """Return whether a file system can be mounted in a namespace of its own; some containers forbid it."""
    command = [*UNSHARE, "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    return shutil.which("unshare") is not None and not subprocess.run(command, capture_output=True).returncode


@pytest.mark.process(seconds=10)
@pytest.mark.parametrize("cases", [("stores", "trainings", "logs"), ("large",), ("service",)])
def test_a_full_disk(cases: tuple[str, ...], tmp_path: Path):
    if not may_mount(tmp_path):
        pytest.skip("needs the right to mount a file system")
    command = [*UNSHARE, sys.executable, "-m", "tests.serve.full_disk", str(tmp_path), *cases]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-5000:]
    assert done.stderr == ""
