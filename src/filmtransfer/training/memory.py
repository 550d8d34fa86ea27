"""Keep freed memory instead of giving it back to the system after every layer.

A training step allocates and frees the same large blocks again and again. glibc returns them to the
kernel each time, and getting them back costs a page fault per 4 KB, which on some machines is more
than the arithmetic (benchmarks/memory.py measures it). The command turns this on for its own process;
the library never does.
"""

from __future__ import annotations

import ctypes
import sys

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
