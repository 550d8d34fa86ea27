"""Whether this process can serve requests now, in checks by name: what a load balancer asks for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from .store import StoreError

CACHE_SECONDS = 1.0  # for which the results are kept, since anyone may ask


class Readiness:
    """Checks, which are repeated at most once in a while. Thread-safe."""

    def __init__(
        self, checks: Mapping[str, Callable[[], bool]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.checks = checks
        self.clock = clock
        self._lock = threading.Lock()  # of many requests at once, one checks and the others wait for it
        self._results: dict[str, bool] = {}
        self._expires = clock()

    def results(self) -> dict[str, bool]:
        """Return the result of each check."""
        with self._lock:
            if self.clock() >= self._expires:
                self._results = {name: _passes(check) for name, check in self.checks.items()}
                self._expires = self.clock() + CACHE_SECONDS
            return dict(self._results)


def _passes(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except (StoreError, OSError):
        return False
