"""Collect the images of different users for a moment, and classify them in one pass of the backbone."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np

from ...errors import UnavailableError, UsageError
from .multi_user import Answer, Engine, Member


class QueueFullError(UnavailableError):
    """More images are waiting than can be classified soon."""


@dataclass(frozen=True, eq=False)
class QueuedImage:
    """An image, the classifier of its user, and the future answer."""

    member: Member
    pixels: np.ndarray
    answer: Future[Answer] = field(default_factory=Future)


class Batcher:
    """Threads that classify submitted images, each up to ``batch`` of them together.

    The engine says how many passes run best at the same time, of how many images, and how long the first image waits
    for others. While passes run, the next images are collected, so under load no image waits for the clock. At most
    ``waiting`` images may be in the queue.
    """

    def __init__(
        self,
        engine: Engine,
        batch: int | None = None,
        wait: float | None = None,
        passes_at_once: int | None = None,
        waiting: int = 256,
    ) -> None:
        self.engine = engine
        self.batch = engine.plan.batch if batch is None else batch
        self.wait = engine.plan.wait if wait is None else wait
        count = engine.plan.passes_at_once if passes_at_once is None else passes_at_once
        if self.batch < 1 or count < 1 or waiting < 1 or not self.wait >= 0:
            raise UsageError("A batch has at least one image, and a wait is at least 0 seconds.")
        self.on_batch: Callable[[int], object] = lambda _: None  # called with the images of each pass
        self.passes = 0
        self.images = 0
        self._queue: queue.Queue[QueuedImage | None] = queue.Queue()  # None ends a thread
        self._room = threading.Semaphore(waiting)
        self._lock = threading.Lock()  # nothing is added after None
        self._closed = False
        self._counting = threading.Lock()
        self._threads = [
            threading.Thread(target=self._run, name=f"batcher-{i}", daemon=True) for i in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, member: Member, pixels: np.ndarray) -> Future[Answer]:
        """Return the future answer; raise at once for pixels that do not fit and for a full queue."""
        self.engine.fits(member, pixels)
        with self._lock:
            if self._closed:
                raise UnavailableError("The service is ending.", "Try again in a moment.")
            if not self._room.acquire(blocking=False):
                raise QueueFullError("Too many images are waiting.", "Try again in a second.")
            image = QueuedImage(member, pixels)
            self._queue.put(image)
        return image.answer

    @property
    def waiting(self) -> int:
        """The number of images in the queue."""
        return self._queue.qsize()

    @property
    def running(self) -> bool:
        """Whether images are accepted, and the threads that classify them are alive."""
        return not self._closed and all(thread.is_alive() for thread in self._threads)

    def close(self) -> None:
        """Classify the images in the queue, accept no more, and end the threads."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            images, ended = self._collect()
            wanted = [image for image in images if image.answer.set_running_or_notify_cancel()]
            if wanted:
                with self._counting:
                    self.passes += 1
                    self.images += len(wanted)
                    self.on_batch(len(wanted))
                self._answer(wanted)

    def _collect(self) -> tuple[list[QueuedImage], bool]:
        """Return the next batch, and whether it is the last one."""
        images: list[QueuedImage] = []
        deadline = 0.0
        while len(images) < self._share(len(images)):
            try:
                timeout = None if not images else max(deadline - time.monotonic(), 0)
                image = self._queue.get(timeout=timeout) if timeout != 0 else self._queue.get_nowait()
            except queue.Empty:
                break
            if image is None:
                return images, True
            self._room.release()
            if not images:
                deadline = time.monotonic() + self.wait
            images.append(image)
        return images, False

    def _share(self, taken: int) -> int:
        """Return how many images to take: all that a pass can, unless other threads could work on some of them."""
        available = taken + self._queue.qsize()
        return (
            min(self.batch, max(1, -(-available // len(self._threads))))
            if len(self._threads) > 1
            else self.batch
        )

    def _answer(self, images: Sequence[QueuedImage]) -> None:
        """Classify in one pass; if that fails, one pass for each image, so that only the cause gets the error."""
        try:
            answers = self.engine.answers([one.member for one in images], [one.pixels for one in images])
        except Exception as error:
            if len(images) == 1:
                images[0].answer.set_exception(error)
            else:
                for image in images:
                    self._answer([image])
            return
        for image, answer in zip(images, answers, strict=True):
            image.answer.set_result(answer)
