"""Settings of a process that make a step cheaper and change no number that matters.

Freed memory is kept: a step allocates and frees the same large blocks again and again, and glibc gives
them back to the kernel each time; getting them again costs a page fault per 4 KB, on some machines more
than the arithmetic. It lasts as long as the process, so the command asks for it, the library never does.

Threads: torch takes as many as the machine has cores, also in a container that may use two of sixty-four, or
when several processes share the machine; then they wait for each other most of the time.

Denormal numbers are taken as 0: once most queries are certain, gradients underflow, and arithmetic on what
is left of them is many times slower on a CPU. It lasts as long as the loop.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from ..errors import UsageError

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def prepare(threads: int | None = None, processes: int = 1) -> None:
    """What the command does before it works: threads, and memory that is kept."""
    choose_threads(threads, processes)
    keep_freed_memory()


def keep_freed_memory() -> bool:
    """Ask glibc to hold on to freed blocks; False where there is no glibc."""
    if sys.platform != "linux":
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    wishes = ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_ARENA_MAX, 1))
    granted = [bool(mallopt(option, value)) for option, value in wishes]
    return all(granted)


def choose_threads(wish: int | None = None, processes: int = 1) -> int:
    """Set torch's threads: as wished, as OMP_NUM_THREADS says, or the cores this process may really use."""
    if wish is not None:
        if wish < 1:
            raise UsageError(f"{wish} threads are none.", "Give at least 1.")
        torch.set_num_threads(wish)
    elif processes > 1:  # torchrun has set OMP_NUM_THREADS to 1, for want of knowing better
        torch.set_num_threads(max(1, usable_cores() // processes))
    elif "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))
    return torch.get_num_threads()


def usable_cores(cgroup: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores by the process's affinity and, in a container, by its share of processor time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    newer = _words(cgroup / "cpu.max")
    older = _words(cgroup / "cpu" / "cpu.cfs_quota_us") + _words(cgroup / "cpu" / "cpu.cfs_period_us")
    for share in (newer, older):
        if len(share) == 2 and all(word.isdigit() for word in share):  # not "max", not "-1"
            cores = min(cores, max(1, round(int(share[0]) / int(share[1]))))
    return cores


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Within the block, numbers too small for float's normal range are 0."""
    before = denormals_are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(before)


def denormals_are_zero() -> bool:
    """Whether they are now: torch can be told but not asked."""
    tiny = torch.tensor([1e-310], dtype=torch.float64)
    return float(tiny * 0.5) == 0.0
