"""A worker process: run users' trainings one after the other, and publish the resulting versions.

    python -m filmtransfer.serve.worker --database sqlite:///fit.db --objects file:///data --backbone efficientnet_lite0

A worker claims a training with a lease, which a thread renews; if the worker dies, the lease expires and another worker
claims the training. When the store reports that the training was cancelled or claimed by another worker, this one stops
at the next step. A user's error ends the training as "failed" with the reason; no training ends the worker. With
``--idle`` a worker ends when there was no training for a while; the supervisor starts one for the next training.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TypeVar

from ..backbones import Backbone, load_backbone
from ..errors import FitError, InputError
from ..formatting import printable
from ..processes import terminate_with_parent
from ..training.callbacks import Progress
from ..training.torch_settings import configure_process
from .settings import LEASE, WORKER_READY
from .store import (
    ConflictError,
    JsonObject,
    NotFoundError,
    Store,
    StoreError,
    StoreFullError,
    StoreLocation,
    StoreUnavailableError,
    Training,
)
from .summary import accuracy_fields
from .trainable import check_trainable
from .training import LAST_STAGE, train_user

Result = TypeVar("Result")

HAND_BACK_SECONDS = 1.0  # for a training to stop at its next step when the worker is to end
POLL = 0.5  # seconds between two queries of an empty queue
EVENT_INTERVAL = 0.2  # seconds between two progress events; a page needs no more
PROGRESS_FIELDS = ("step", "steps", "loss", "accuracy", "seconds_left")
VERSION_FIELDS = ("stage", "bytes")


class Stopped(Exception):
    """The training must not be continued by this worker."""


class Worker:
    """One training at a time, until ``stop`` is called or there was none for long."""

    def __init__(
        self,
        store: Store,
        backbone: Backbone,
        *,
        name: str = "",
        lease: float = LEASE,
        poll: float = POLL,
        idle: float = 0,
    ) -> None:
        self.store = store
        self.backbone = backbone
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.lease = lease
        self.poll = poll
        self.idle = idle  # seconds without a training after which ``run`` returns; 0: never
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._training: Training | None = None
        self._problem_reported = False

    def stop(self) -> None:
        """Stop soon, and return the running training to the queue."""
        self._stopping.set()

    def end_process(self) -> None:
        """Stop, or end the process if the training does not reach its next step soon; it is in the queue again then."""
        self.stop()
        if not self._ended.wait(HAND_BACK_SECONDS):
            training = self._training
            if training is not None:
                with suppress(StoreError):  # then its lease expires
                    self.store.trainings.release(training.id, self.name)
            os._exit(0)

    def run(self) -> None:
        """Run trainings until stopped or idle; wait while the store is unavailable.

        An idle worker ends only after the store has confirmed that it claimed nothing.
        """
        try:
            self._run()
        finally:
            self._ended.set()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._stopping.is_set():
            try:
                ran = self.run_next()
                self._problem_reported = False
                if ran:
                    last = time.monotonic()
                    continue
                if self.idle and time.monotonic() - last >= self.idle:
                    return
            except (StoreUnavailableError, StoreFullError) as error:
                self._report(error)
            self._stopping.wait(self.poll)

    def run_next(self) -> bool:
        """Run the next training of the queue; return whether there was one."""
        training = self.store.trainings.claim(self.name, self.lease)
        if training is None:
            return False
        self._training = training
        try:
            with self._renewed_lease(training) as lost:
                self._train(training, lost)
        except (Stopped, ConflictError, NotFoundError):  # cancelled, deleted, claimed by another, or stopping
            if self._stopping.is_set():
                self.store.trainings.release(training.id, self.name)
        except StoreUnavailableError:
            raise  # it could not be returned to the queue, so its lease expires
        except FitError as error:
            self._fail(training, str(error))
        except Exception as error:  # not an error of the user: the details go to the log only
            traceback.print_exc()
            self._fail(training, f"An unexpected error occurred ({type(error).__name__}). Try again.")
        return True

    def _train(self, training: Training, lost: threading.Event) -> None:
        project, store = training.project, self.store
        last = 0.0

        def check() -> None:
            if lost.is_set() or self._stopping.is_set():
                raise Stopped

        def persist(action: Callable[[], Result]) -> Result:
            """Use the store, and wait while it is unavailable: the training would have to begin again."""
            while True:
                check()
                try:
                    result = action()
                    self._problem_reported = False
                    return result
                except StoreUnavailableError as error:
                    self._report(error)
                    self._stopping.wait(self.poll)

        names = {one.id: one.name for one in persist(lambda: store.classes.all(project))}
        photos = persist(lambda: store.photos.all(project))
        check_trainable(len({photo.class_id for photo in photos}), InputError)
        images = [persist(partial(store.photos.content, project, photo.id)) for photo in photos]
        labels = [names[photo.class_id] for photo in photos]

        def on_step(progress: Progress) -> None:
            nonlocal last
            check()
            now = time.monotonic()
            if now - last > EVENT_INTERVAL or progress.step in (1, progress.steps):
                last = now
                fields = {name: round(getattr(progress, name), 4) for name in PROGRESS_FIELDS}
                with suppress(StoreUnavailableError, StoreFullError):  # the next one reports more
                    store.trainings.add_event(training.id, self.name, "progress", fields)

        def publish(content: bytes, summary: JsonObject) -> None:
            for prediction in summary["photos"]:
                prediction["id"] = photos[prediction["index"]].id
            summary["class_ids"] = {names[photo.class_id]: photo.class_id for photo in photos}
            event = {name: summary[name] for name in VERSION_FIELDS} | accuracy_fields(summary)
            is_last = summary["stage"] == LAST_STAGE
            owner = {"training": training.id, "worker": self.name}
            persist(
                lambda: store.versions.publish(
                    project, content, "trained", summary, **owner, event=event, last=is_last
                )
            )

        train_user(
            images, labels, backbone=self.backbone, options=training.options, on_step=on_step, publish=publish
        )
        persist(lambda: store.trainings.end(training.id, self.name, "done"))  # unless its last version did

    @contextmanager
    def _renewed_lease(self, training: Training) -> Iterator[threading.Event]:
        """Renew the lease in a thread; the event is set when the training is no longer this worker's."""
        lost, ended = threading.Event(), threading.Event()

        def renew() -> None:
            while not ended.wait(self.lease / 4):
                try:
                    renewed = self.store.trainings.renew(training.id, self.name, self.lease)
                except StoreError:
                    continue  # if it stays unavailable the lease expires, and publishing is refused
                if not renewed:
                    lost.set()
                    return

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            ended.set()
            thread.join()

    def _report(self, error: FitError) -> None:
        """Print an error of the store, once until it works again."""
        if self._problem_reported:
            return
        self._problem_reported = True
        with suppress(OSError):  # the disk of the log may be full, too
            print(printable(f"worker {self.name}: {error}"), file=sys.stderr, flush=True)

    def _fail(self, training: Training, message: str) -> None:
        with suppress(ConflictError, NotFoundError):  # it was cancelled in the meantime
            self.store.trainings.end(training.id, self.name, "failed", message)


def on_signal(end: Callable[[], None]) -> None:
    """Call a function in a thread of its own at SIGTERM or SIGINT, even while the main thread computes in torch."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)  # the bytes in the pipe are what counts
    signal.set_wakeup_fd(writing)

    def wait() -> None:
        os.read(reading, 1)
        end()

    threading.Thread(target=wait, name="signals", daemon=True).start()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker until SIGTERM, SIGINT or its idle time; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m filmtransfer.serve.worker", description=__doc__)
    parser.add_argument("--database", required=True, help="URL of the store's database")
    parser.add_argument(
        "--objects", help="folder or URL of the store's files, if they are not in the database"
    )
    parser.add_argument("--backbone", default="efficientnet_lite0")
    parser.add_argument("--weights", help="weights file of the backbone")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--lease", type=float, default=LEASE, help="seconds until a dead worker is replaced")
    parser.add_argument("--poll", type=float, default=POLL, help="seconds between queries of an empty queue")
    parser.add_argument("--idle", type=float, default=0, help="seconds without work until it ends; 0: never")
    parser.add_argument("--alone", action="store_true", help="do not end at the end of standard input")
    args = parser.parse_args(arguments)
    try:
        if not args.alone:
            terminate_with_parent()
        configure_process(args.threads)
        store = Store.open(StoreLocation(args.database, args.objects))
        backbone = load_backbone(args.backbone, args.weights)
        worker = Worker(store, backbone, lease=args.lease, poll=args.poll, idle=args.idle)
    except FitError as error:
        print(printable(str(error)), file=sys.stderr)
        return error.exit_code
    on_signal(worker.end_process)
    print(f"worker {worker.name} {WORKER_READY}", flush=True)
    with closing(store):
        worker.run()
    print(f"worker {worker.name} ends", flush=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # Python would take up to seconds to unload torch
