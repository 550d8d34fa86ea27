"""A worker: takes users' trainings one after the other, and publishes what comes of them.

    python -m filmtransfer.serve.worker --database sqlite:///fit.db --objects file:///data --backbone efficientnet_lite0

It holds a training by a lease, which a thread renews; if the worker dies the lease runs out and another one takes
over. When the store says that the training is no longer its own (cancelled, or given to another), it stops at the next
step. A user's mistake ends as "failed" with the reason; no training ends the worker.
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
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..backbones import Backbone, load_backbone
from ..errors import FitError, InputError
from ..processes import terminate_with_parent
from ..training.finetune.loop import Progress
from ..training.torch_settings import prepare
from .store import ConflictError, NotFoundError, Store, StoreGoneError, Training
from .training import train_user

LEASE = 60.0  # seconds
POLL = 0.5  # seconds between two looks at an empty queue


class Stopped(Exception):
    """This training is not to be gone on with here."""


class Worker:
    """One training at a time, until ``stop`` is called."""

    def __init__(
        self, store: Store, backbone: Backbone, *, name: str = "", lease: float = LEASE, poll: float = POLL
    ) -> None:
        self.store = store
        self.backbone = backbone
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.lease = lease
        self.poll = poll
        self._ending = threading.Event()

    def stop(self) -> None:
        """End soon; what is being trained goes to another worker."""
        self._ending.set()

    def run(self) -> None:
        """Take trainings until stopped. A store that is gone is waited for."""
        while not self._ending.is_set():
            try:
                if self.work():
                    continue
            except StoreGoneError as error:
                print(f"worker {self.name}: {error}", file=sys.stderr, flush=True)
            self._ending.wait(self.poll)

    def work(self) -> bool:
        """Do the next training, if there is one."""
        training = self.store.take_training(self.name, self.lease)
        if training is None:
            return False
        try:
            with self._kept(training) as lost:
                self._train(training, lost)
            self.store.end_training(training.id, self.name, "done")
        except (
            Stopped,
            ConflictError,
            NotFoundError,
        ):  # cancelled, deleted, given to another, or we are ending
            if self._ending.is_set():
                self.store.keep_training(training.id, self.name, 0)
        except StoreGoneError:
            raise  # the lease will run out
        except FitError as error:
            self._fail(training, str(error))
        except Exception as error:  # not the user's mistake: said without its inside, which goes to the log
            traceback.print_exc()
            self._fail(training, f"Something went wrong inside ({type(error).__name__}). Try again.")
        return True

    def _train(self, training: Training, lost: threading.Event) -> None:
        photos, labels = [], []
        names = {one.id: one.name for one in self.store.classes(training.user)}
        chosen = self.store.photos(training.user)
        if not chosen:
            raise InputError("There are no photos yet.", "Add a few to each of at least two classes.")
        for photo in chosen:
            photos.append(self.store.photo_content(training.user, photo.id))
            labels.append(names[photo.class_id])
        last = 0.0

        def watch(progress: Progress) -> None:
            nonlocal last
            if lost.is_set() or self._ending.is_set():
                raise Stopped
            now = time.monotonic()
            if now - last > 0.2 or progress.step in (1, progress.steps):  # a page needs no more
                last = now
                said = {name: round(getattr(progress, name), 4) for name in PROGRESS}
                self.store.tell(training.id, self.name, "progress", said)

        def publish(content: bytes, summary: dict[str, Any]) -> None:
            if lost.is_set() or self._ending.is_set():
                raise Stopped
            for judged in summary["photos"]:
                judged["id"] = chosen[judged["index"]].id
            version = self.store.publish(training.user, content, "trained", summary, training.id, self.name)
            said = {name: summary[name] for name in ("stage", "accuracy", "low", "high", "bytes")}
            self.store.tell(training.id, self.name, "version", {"number": version.number} | said)

        train_user(
            photos, labels, backbone=self.backbone, options=training.options, watch=watch, publish=publish
        )

    @contextmanager
    def _kept(self, training: Training) -> Iterator[threading.Event]:
        """Renew the lease meanwhile; the event is set when the training is no longer ours."""
        lost, over = threading.Event(), threading.Event()

        def renew() -> None:
            while not over.wait(self.lease / 4):
                try:
                    kept = self.store.keep_training(training.id, self.name, self.lease)
                except StoreGoneError:
                    continue  # if it stays away the lease runs out, and publishing is refused
                if not kept:
                    lost.set()
                    return

        thread = threading.Thread(target=renew, name="lease", daemon=True)
        thread.start()
        try:
            yield lost
        finally:
            over.set()
            thread.join()

    def _fail(self, training: Training, message: str) -> None:
        try:
            self.store.end_training(training.id, self.name, "failed", message)
        except (ConflictError, NotFoundError):
            pass  # it was cancelled meanwhile


PROGRESS = ("step", "steps", "loss", "accuracy", "seconds_left")


def main(words: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(prog="python -m filmtransfer.serve.worker", description=__doc__)
    options.add_argument("--database", required=True, help="SQLAlchemy URL of the store")
    options.add_argument("--objects", help="fsspec URL of the store's files, if they are not in the database")
    options.add_argument("--backbone", default="efficientnet_lite0")
    options.add_argument("--weights", help="a weights file for the backbone")
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--lease", type=float, default=LEASE, help="seconds until a dead worker is replaced")
    options.add_argument("--poll", type=float, default=POLL, help="seconds between looks at an empty queue")
    options.add_argument("--alone", action="store_true", help="do not end when standard input does")
    args = options.parse_args(words)
    try:
        if not args.alone:
            terminate_with_parent()
        prepare(args.threads)
        store = Store.open(args.database, args.objects)
        worker = Worker(store, load_backbone(args.backbone, args.weights), lease=args.lease, poll=args.poll)
    except FitError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: worker.stop())
    print(f"worker {worker.name} is ready", flush=True)
    try:
        worker.run()
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
