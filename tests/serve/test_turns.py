"""Users take turns, whatever the number of their requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from filmtransfer.serve.turns import UserTurns


async def patient() -> None:
    """Wait as long as it takes."""


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0)


class Requests:
    """Requests whose turns end when the test says so."""

    def __init__(self, at_once: int = 1) -> None:
        self.turns = UserTurns(at_once)
        self.started: list[str] = []
        self.ends: dict[str, anyio.Event] = {}

    async def run(self, name: str, check: Callable[[], Awaitable[None]] = patient) -> None:
        """Request a turn for the user of the first letter."""
        self.ends[name] = anyio.Event()
        async with self.turns.turn(name[0], check):
            self.started.append(name)
            await self.ends[name].wait()

    async def finish(self) -> list[str]:
        """End one turn after the other; return the order in which they started."""
        for index in range(len(self.ends)):
            await until(lambda index=index: len(self.started) > index)
            self.ends[self.started[index]].set()
        return self.started


@pytest.mark.parametrize(
    ("arrivals", "order"),
    [
        ("a1 a2 a3 b1 c1", "a1 b1 c1 a2 a3"),
        ("a1 a2 b1 b2 a3", "a1 b1 a2 b2 a3"),
        ("a1 b1 a2 c1", "a1 b1 c1 a2"),
        ("a1 a2 a3", "a1 a2 a3"),
    ],
)
def test_users_take_turns(arrivals, order):
    async def main() -> list[str]:
        requests = Requests()
        async with anyio.create_task_group() as group:
            for name in arrivals.split():
                group.start_soon(requests.run, name)
                await until(lambda name=name: name in requests.ends)
            return await requests.finish()

    assert anyio.run(main) == order.split()


def test_a_user_who_asks_again_at_once_does_not_overtake():
    async def main() -> list[str]:
        requests = Requests()
        async with anyio.create_task_group() as group:
            for name in ("a1", "b1"):
                group.start_soon(requests.run, name)
                await until(lambda name=name: name in requests.ends)
            requests.ends["a1"].set()
            group.start_soon(requests.run, "a2")
            await until(lambda: "b1" in requests.started and "a2" in requests.ends)
            group.start_soon(requests.run, "c1")
            await until(lambda: "c1" in requests.ends)
            return await requests.finish()

    assert anyio.run(main) == ["a1", "b1", "a2", "c1"]


def test_several_run_at_the_same_time():
    async def main() -> None:
        requests = Requests(2)
        async with anyio.create_task_group() as group:
            for name in ("a1", "a2", "a3"):
                group.start_soon(requests.run, name)
            await until(lambda: len(requests.ends) == 3)
            assert requests.started == ["a1", "a2"]
            assert requests.turns.requests("a") == 3
            assert await requests.finish() == ["a1", "a2", "a3"]
        assert requests.turns.requests("a") == 0

    anyio.run(main)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_request_that_leaves_gives_up_its_turn(cancelled):
    """One that waits is not granted a turn later, and one that runs makes room for the next, whatever ended it."""

    class LeftError(Exception):
        pass

    async def leave() -> None:
        raise LeftError

    async def main() -> None:
        requests = Requests()

        async def waiting() -> None:
            if cancelled:
                with anyio.CancelScope() as scope:
                    scope.cancel()
                    await requests.run("b1")
            else:
                with pytest.raises(LeftError):
                    await requests.run("b1", leave)

        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as running:
                    running.start_soon(requests.run, "a1")
                    await until(lambda: requests.started == ["a1"])
                    await waiting()
                    assert requests.turns.requests("b") == 0
                    scope.cancel()
            group.start_soon(requests.run, "c1")
            await until(lambda: requests.started == ["a1", "c1"])
            requests.ends["c1"].set()

    anyio.run(main)
