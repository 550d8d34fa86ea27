"""Settings of a process that make a training step cheaper without changing its result beyond rounding.

Freed memory is kept: a step allocates and frees the same large blocks again and again, and glibc returns them to the
kernel each time; getting them back costs a page fault per 4 KB, on some machines more than the arithmetic. The setting
lasts as long as the process, so the command makes it, the library never does.

Threads: torch uses as many as the machine has cores, also in a container that may use two of sixty-four, or when
several processes share the machine; then the threads wait for each other most of the time.

Denormal numbers are treated as 0: once most queries are classified with certainty, gradients underflow, and arithmetic
on denormal numbers is many times slower on a CPU. The setting lasts as long as the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..model.hardware import choose_threads
from ..processes import M_ARENA_MAX, M_MMAP_MAX, M_TRIM_THRESHOLD, set_malloc_options


def configure_process(threads: int | None = None, processes: int = 1) -> None:
    """Set the threads of a command's process, and keep freed memory."""
    choose_threads(threads, processes)
    keep_freed_memory()


def keep_freed_memory() -> bool:
    """Tell glibc to keep freed blocks; return whether it does."""
    return set_malloc_options({M_MMAP_MAX: 0, M_TRIM_THRESHOLD: 2**31 - 1, M_ARENA_MAX: 1})


@contextmanager
def denormals_as_zero() -> Iterator[None]:
    """Treat denormal numbers as 0 within the block."""
    previous = denormals_are_zero()
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(previous)


def denormals_are_zero() -> bool:
    """Tell whether denormal numbers are 0 now, by trying: torch has no function for it."""
    tiny = torch.tensor([1e-310], dtype=torch.float64)
    return float(tiny * 0.5) == 0.0
