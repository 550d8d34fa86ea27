"""What a process that decodes images may still do, even if an image makes a decoder run code of its own: next to nothing.

Memory, the size of files and the number of open files are limited everywhere. Where the Linux kernel has Landlock, the
process can open no file, run no program, use no TCP and send no signal to other processes. Threads remain, since some decoders
need them; so does what was opened before.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress

MAX_FILES = 8  # open at the same time: the pipes, and those of the system
CREATE_RULESET, RESTRICT_SELF = 444, 446  # numbers of system calls
VERSION = 1  # a flag of the first one: return the version of Landlock
NO_NEW_PRIVILEGES = 38  # an option of prctl
ACCESS_FILES = {
    1: 13,
    2: 14,
    3: 15,
    5: 16,
}  # by the first version that has them: the number of kinds of access
ACCESS_NETWORK = {4: 2}
SCOPES = {6: 2}  # abstract sockets and signals


def restrict(megabytes: int) -> None:
    """Restrict this process for good; everything that it needs has been imported."""
    import resource  # here: Windows has none, and the service refuses to start there with a clear message

    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: MAX_FILES,
        resource.RLIMIT_DATA: megabytes * 1_000_000,
    }
    for kind, limit in limits.items():
        with suppress(ValueError, OSError):  # not every system has each of them
            resource.setrlimit(kind, (limit, limit))
    if sys.platform == "linux":
        use_landlock()


def use_landlock() -> bool:
    """Forbid this thread, and those that it starts, all that the version of Landlock knows; return whether there is one."""
    try:
        libc = ctypes.CDLL(None)
        version = libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    except (OSError, AttributeError):
        return False
    if version < 1:
        return False
    handled = (ctypes.c_uint64 * 3)(*(_bits(one, version) for one in (ACCESS_FILES, ACCESS_NETWORK, SCOPES)))
    rules = libc.syscall(CREATE_RULESET, handled, ctypes.c_size_t(ctypes.sizeof(handled)), 0)
    if rules < 0 or libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    return bool(libc.syscall(RESTRICT_SELF, rules, 0) == 0)


def _bits(counts: dict[int, int], version: int) -> int:
    """Return as many bits as there are kinds of access in a version."""
    return (1 << max((count for first, count in counts.items() if first <= version), default=0)) - 1
