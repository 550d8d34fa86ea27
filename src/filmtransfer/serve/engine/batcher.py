"""Requests of different users, collected for a moment and answered in one pass."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from torch import Tensor

from ...errors import UnavailableError, UsageError
from .multi_user import Answer, Engine, Member


class QueueFullError(UnavailableError):
    """More requests wait than can be answered soon."""


@dataclass(frozen=True, eq=False)
class Request:
    """An image, whose it is, and who waits for the answer."""

    member: Member
    pixels: Tensor
    answer: Future[Answer] = field(default_factory=Future)


class Batcher:
    """A thread that answers ``submit``ted images, up to ``batch`` together.

    The first image waits at most ``wait`` seconds for others. While a pass runs the next batch collects itself, so
    under load nobody waits for the clock. ``waiting`` images may stand in the queue.
    """

    def __init__(self, engine: Engine, batch: int = 32, wait: float = 0.002, waiting: int = 256) -> None:
        if batch < 1 or waiting < 1 or not wait >= 0:
            raise UsageError("A batch needs room for an image, and a wait of at least 0 seconds.")
        self.engine = engine
        self.batch = batch
        self.wait = wait
        self.watch: Callable[[int], object] = lambda _: None  # told how many images a pass had
        self.passes = 0
        self.images = 0
        self._queue: queue.Queue[Request | None] = queue.Queue()
        self._room = threading.Semaphore(waiting)
        self._lock = threading.Lock()  # so that nothing comes after the end mark
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="batcher", daemon=True)
        self._thread.start()

    def submit(self, member: Member, pixels: Tensor) -> Future[Answer]:
        """The answer to come; pixels that do not fit, and a full queue, are said at once."""
        self.engine.fits(member, pixels)
        with self._lock:
            if self._closed:
                raise UnavailableError("The service is ending.", "Try again in a moment.")
            if not self._room.acquire(blocking=False):
                raise QueueFullError("Too many images are waiting.", "Try again in a second.")
            request = Request(member, pixels)
            self._queue.put(request)
        return request.answer

    @property
    def waiting(self) -> int:
        """How many images stand in the queue."""
        return self._queue.qsize()

    def close(self) -> None:
        """Answer what is waiting, take nothing more, and end the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            requests, ended = self._collect()
            wanted = [one for one in requests if one.answer.set_running_or_notify_cancel()]
            if wanted:
                self.passes += 1
                self.watch(len(wanted))
                self.images += len(wanted)
                self._answer(wanted)

    def _collect(self) -> tuple[list[Request], bool]:
        """The next batch, and whether the end mark came with it."""
        requests: list[Request] = []
        deadline = 0.0
        while len(requests) < self.batch:
            try:
                left = None if not requests else max(deadline - time.monotonic(), 0)
                one = self._queue.get(timeout=left) if left != 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            if one is None:
                return requests, True
            self._room.release()
            if not requests:
                deadline = time.monotonic() + self.wait
            requests.append(one)
        return requests, False

    def _answer(self, requests: Sequence[Request]) -> None:
        """One pass for all; if that fails, one for each, so that only the guilty gets the error."""
        try:
            answers = self.engine.answers([one.member for one in requests], [one.pixels for one in requests])
        except Exception as error:
            if len(requests) == 1:
                requests[0].answer.set_exception(error)
            else:
                for one in requests:
                    self._answer([one])
            return
        for one, answer in zip(requests, answers, strict=True):
            one.answer.set_result(answer)
