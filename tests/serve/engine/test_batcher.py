"""The batcher with many threads: every image gets its own answer or error."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from filmtransfer.errors import InputError, UnavailableError, UpdateFileError, UsageError
from filmtransfer.serve.engine.batcher import Batcher, QueueFullError
from filmtransfer.serve.engine.multi_user import Answer, Engine

from .. import updates
from ..updates import photo, update

USERS = 16


@pytest.fixture(scope="module")
def engine() -> Engine:
    return updates.engine(32)


@pytest.fixture(scope="module")
def members(engine):
    heads = ("lda", "qda", "protonets", "linear")
    return [engine.member(update(i, heads[i % 4], size=32).to_bytes()) for i in range(USERS)]


class Gate:
    """An engine that waits at a gate, so that a test determines what is collected in the meantime."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.inside, self.open = threading.Event(), threading.Event()
        self.batches: list[int] = []

    def fits(self, *what: Any) -> None:
        self.engine.fits(*what)

    def answers(self, members: Any, pixels: Any) -> list[Answer]:
        self.batches.append(len(members))
        self.inside.set()
        assert self.open.wait(10)
        return self.engine.answers(members, pixels)


@pytest.mark.slow
def test_answers_are_never_mixed_up(engine, members):
    pixels = [engine.pixels(photo(i % 3, i)) for i in range(4)]
    alone = {
        (u, i): engine.answers([members[u]], p[None])[0] for u in range(USERS) for i, p in enumerate(pixels)
    }
    batcher = Batcher(engine, batch=8)
    together: list[int] = []
    batcher.on_batch = together.append

    def ask(user: int) -> float:
        worst = 0.0
        for turn in range(12):
            image = (user + turn) % 4
            answer = batcher.submit(members[user], pixels[image]).result(60)
            assert all(name.endswith(f" of {user}") for name, _ in answer.classes)
            expected = dict(alone[user, image].classes)
            worst = max(worst, *(abs(p - expected[name]) for name, p in answer.classes))
        return worst

    with ThreadPoolExecutor(USERS) as pool:
        assert max(pool.map(ask, range(USERS))) < 1e-5
    batcher.close()
    assert batcher.images == sum(together) == USERS * 12
    assert max(together) <= 8
    assert batcher.passes < batcher.images, "they went together"


def test_an_error_affects_only_its_image(engine, members):
    pixels = engine.pixels(photo(0, 1))
    broken = replace(members[0], film=members[0].film * np.nan)
    gate = Gate(engine)
    batcher = Batcher(gate, batch=8, wait=0.0, passes_at_once=1)
    first = batcher.submit(members[1], pixels)
    assert gate.inside.wait(10)  # the next images are in one batch
    good = [batcher.submit(member, pixels) for member in members[2:6]]
    bad = batcher.submit(broken, pixels)
    with pytest.raises(InputError, match="takes uint8"):
        batcher.submit(members[0], pixels[:, :8])
    gate.open.set()
    assert first.result(10).classes
    for user, future in enumerate(good, 2):
        assert future.result(10).classes[0][0].endswith(f" of {user}")
    with pytest.raises(UpdateFileError, match="not finite"):
        bad.result(10)
    assert gate.batches[:2] == [1, 5]
    batcher.close()


def test_the_queue_is_bounded_and_cancelled_images_are_skipped(engine, members):
    pixels = engine.pixels(photo(0, 1))
    gate = Gate(engine)
    batcher = Batcher(gate, batch=8, wait=0.0, passes_at_once=1, waiting=3)
    first = batcher.submit(members[0], pixels)
    assert gate.inside.wait(10)
    waiting = [batcher.submit(members[i], pixels) for i in range(3)]
    assert batcher.waiting == 3
    with pytest.raises(QueueFullError, match="Too many"):
        batcher.submit(members[4], pixels)
    assert waiting[1].cancel()
    gate.open.set()
    assert first.result(10)
    assert waiting[0].result(10)
    assert waiting[2].result(10)
    assert batcher.submit(members[4], pixels).result(10), "there is room again"
    batcher.close()
    assert gate.batches == [1, 2, 1]


def test_close_answers_waiting_images_and_accepts_no_more(engine, members):
    pixels = engine.pixels(photo(0, 1))
    batcher = Batcher(engine, batch=4)
    futures = [batcher.submit(member, pixels) for member in members]
    batcher.close()
    assert all(future.done() and future.result() for future in futures)
    batcher.close()
    with pytest.raises(UnavailableError, match="ending"):
        batcher.submit(members[0], pixels)
    assert not any(thread.name.startswith("batcher") for thread in threading.enumerate())
    with pytest.raises(UsageError):
        Batcher(engine, batch=0)
