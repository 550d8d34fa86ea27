"""Whether this process can serve requests now, in checks by name: what a load balancer asks for."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from .store import StoreError

CACHE_SECONDS = 1.0  # for which the results are kept, since anyone may ask
DEADLINE = 5.0  # seconds after which a check that has no result yet has failed


class Check:
    """A check, which fails by an error or after the deadline. A database or a disk that hangs keeps one thread of it.

    Callers, which are on one event loop, get the result of the last run until it is old.
    """

    def __init__(
        self, function: Callable[[], bool | None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.function = function
        self.clock = clock
        self._run: Future[bool] | None = None
        self._started = 0.0

    async def passes(self) -> bool:
        """Return whether the function returned in time, without an error, anything but False."""
        run, now = self._run, self.clock()
        if run is None or (run.done() and now >= self._started + CACHE_SECONDS):
            self._run, self._started = run, now = Future[bool](), self.clock()
            threading.Thread(target=self._call, args=(run,), name="check", daemon=True).start()
        left = self._started + DEADLINE - now
        await asyncio.wait([asyncio.wrap_future(run)], timeout=max(left, 0))
        return run.done() and run.result()

    def _call(self, run: Future[bool]) -> None:
        try:
            run.set_result(self.function() is not False)
        except (StoreError, OSError):
            run.set_result(False)
        except BaseException as error:
            run.set_exception(error)


class Readiness:
    """Checks by name."""

    def __init__(
        self, checks: Mapping[str, Callable[[], bool]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.checks = {name: Check(function, clock) for name, function in checks.items()}

    async def results(self) -> dict[str, bool]:
        """Return the result of each check."""
        passed = await asyncio.gather(*(check.passes() for check in self.checks.values()))
        return dict(zip(self.checks, passed, strict=True))
