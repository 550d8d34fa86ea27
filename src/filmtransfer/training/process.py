"""Two settings of a process that make a step cheaper and change no number that matters.

Freed memory is kept: a step allocates and frees the same large blocks again and again, and glibc gives
them back to the kernel each time; getting them again costs a page fault per 4 KB, on some machines more
than the arithmetic. It lasts as long as the process, so the command asks for it, the library never does.

Denormal numbers are taken as 0: once most queries are certain, gradients underflow, and arithmetic on what
is left of them is many times slower on a CPU. It lasts as long as the loop.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


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
