"""Users take turns, whatever the number of their requests."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress

import anyio
import pytest
from anyio.abc import TaskGroup

from filmtransfer.serve.turns import (
    STANDSTILL_SECONDS,
    UNDISTURBED_SECONDS,
    LineFullError,
    Turn,
    UserTurns,
    retry_after,
)


async def patient(decided: anyio.Event) -> None:
    """Wait as long as it takes."""
    await decided.wait()


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

    async def run(self, name: str, wait: Callable[[anyio.Event], Awaitable[None]] = patient) -> None:
        """Request a turn for the user of the first letter."""
        self.ends[name] = anyio.Event()
        async with self.turns.turn(name[0], wait):
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

    assert anyio.run(main) == ["a1", "b1", "c1", "a2"]


def test_several_run_at_the_same_time():
    async def main() -> None:
        requests = Requests(4)
        async with anyio.create_task_group() as group:
            for name in ("a1", "a2", "a3"):
                group.start_soon(requests.run, name)
            await until(lambda: len(requests.ends) == 3)
            assert requests.started == ["a1", "a2"], "half of the turns are left to others"
            assert requests.turns.requests("a") == 3
            assert await requests.finish() == ["a1", "a2", "a3"]
        assert requests.turns.requests("a") == 0

    anyio.run(main)


def test_users_who_keep_their_turns_leave_some_to_others():
    async def main() -> None:
        requests = Requests(16)
        held = lambda user: sum(name[0] == user for name in requests.started)  # noqa: E731
        async with anyio.create_task_group() as group:
            for number in range(10):
                for user in "abc":
                    group.start_soon(requests.run, f"{user}{number}")
            await until(lambda: len(requests.ends) == 30)
            assert [held(user) for user in "abc"] == [4, 4, 4]
            group.start_soon(requests.run, "d0")
            await until(lambda: "d0" in requests.started)
            for end in requests.ends.values():
                end.set()
        assert len(requests.started) == 31, "nobody is forgotten"

    anyio.run(main)


@pytest.mark.parametrize("cancelled", [False, True])
def test_a_request_that_leaves_gives_up_its_turn(cancelled):
    """One that waits is not granted a turn later, and one that runs makes room for the next, whatever ended it."""

    class LeftError(Exception):
        pass

    async def leave(_: anyio.Event) -> None:
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


def test_users_who_come_one_after_the_other_do_not_overtake_forever():
    """A user whose requests wait has a turn in each round, although another one always returns with a new request."""

    async def main() -> list[str]:
        requests = Requests()
        async with anyio.create_task_group() as group:
            for name in ("a1", "a2", "b1"):
                group.start_soon(requests.run, name)
                await until(lambda name=name: name in requests.ends)
            for number in range(2, 5):  # b returns when its turn has ended
                current = requests.started[-1]
                requests.ends[current].set()
                await until(lambda current=current: requests.started[-1] != current)
                if current[0] == "b":
                    group.start_soon(requests.run, f"b{number}")
                    await until(lambda number=number: f"b{number}" in requests.ends)
            return await requests.finish()

    order = anyio.run(main)
    assert order.index("a2") < order.index("b3")


def test_a_user_holds_a_part_of_the_turns():
    async def main() -> None:
        requests = Requests(4)
        async with anyio.create_task_group() as group:
            for name in ("a1", "a2", "a3", "b1"):
                group.start_soon(requests.run, name)
            await until(lambda: len(requests.started) == 3)
            assert requests.started == ["a1", "a2", "b1"]
            assert not requests.turns.contended, "a3 waits for a turn of its own user"
            requests.ends["a1"].set()
            await until(lambda: "a3" in requests.started)
            for end in requests.ends.values():
                end.set()

    anyio.run(main)


@pytest.mark.parametrize("known", [False, True])
def test_a_turn_of_measured_cost_delays_the_next_one_of_its_user_by_its_seconds(known):
    """Ten seconds of one user are worth ten turns of one second of another one, however long they were held."""
    now = [0.0]
    turns = UserTurns(1, measured=True, clock=lambda: now[0])
    order: list[str] = []

    async def run(name: str, seconds: float) -> None:
        async with turns.turn(name[0], patient) as turn:
            order.append(name)
            turn.cost = seconds if known else None
            now[0] += 1 if known else seconds
            await anyio.sleep(0)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for name, seconds in (("a1", 3), ("a2", 3), *((f"b{i}", 1.0) for i in range(1, 5)), ("c1", 5)):
                group.start_soon(run, name, seconds)

    anyio.run(main)
    assert order == ["a1", "b1", "c1", "b2", "b3", "a2", "b4"]


def test_when_the_line_stands_still_the_slowest_turn_of_the_user_who_has_most_ends():
    now = [0.0]
    turns = UserTurns(6, clock=lambda: now[0])
    ends = {name: anyio.Event() for name in ("a1", "a2", "a3", "b1", "b2", "c1", "d1")}
    held: dict[str, Turn] = {}

    async def run(name: str) -> None:
        async with turns.turn(name[0], patient) as held[name]:
            held[name].idle = True
            await ends[name].wait()

    def ending() -> list[str]:
        return [name for name, turn in held.items() if turns.must_end(turn)]

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for name in ("a1", "a2", "a3", "b1", "b2", "c1"):
                group.start_soon(run, name)
            await until(lambda: len(held) == 6)
            now[0] = 100.0
            assert ending() == [], "nobody waits"
            group.start_soon(run, "d1")
            await until(lambda: turns.contended)
            assert ending() == [], "the line does not stand still yet"
            now[0] += STANDSTILL_SECONDS
            held["a1"].progress, held["a2"].progress, held["a3"].progress = 0.2, 0.1, 0.9
            assert ending() == ["a2"], "b1 has sent nothing, but its user has fewer turns"
            held["a2"].idle = False
            assert ending() == ["a1"], "what is being computed does not end"
            ends["a1"].set()
            await until(lambda: "d1" in held)
            assert ending() == []
            for end in ends.values():
                end.set()

    anyio.run(main)


def test_a_turn_is_undisturbed_for_some_seconds():
    now = [0.0]
    turns = UserTurns(1, clock=lambda: now[0])

    async def wait_for_nothing(_: anyio.Event) -> None:
        assert turns.contended
        now[0] += UNDISTURBED_SECONDS - 0.1
        assert not turns.must_end(held)
        now[0] += 0.1
        assert turns.must_end(held)

    async def main() -> None:
        nonlocal held
        async with turns.turn("a", patient) as held:
            held.idle = True
            with suppress(LineFullError):
                async with turns.turn("b", wait_for_nothing):
                    pass

    held = Turn("", 0)
    anyio.run(main)


def test_a_full_line_refuses_the_user_who_has_most_requests_in_it():
    async def main() -> None:
        turns, outcome = UserTurns(1, max_waiting=3), {}
        release = anyio.Event()

        async def run(name: str) -> None:
            try:
                async with turns.turn(name[0], patient):
                    outcome[name] = "served"
                    await release.wait()
            except LineFullError:
                outcome[name] = "refused"

        async with anyio.create_task_group() as group:
            for name in ("a1", "a2", "a3", "a4"):
                group.start_soon(run, name)
            await until(lambda: turns.waiting == 3)
            group.start_soon(run, "a5")  # as its user has most
            await until(lambda: outcome.get("a5") == "refused")
            group.start_soon(run, "b1")  # takes the place of a4
            await until(lambda: outcome.get("a4") == "refused")
            assert turns.waiting == 3
            release.set()
        assert {name for name, what in outcome.items() if what == "served"} == {"a1", "a2", "a3", "b1"}
        assert turns.waiting == turns.requests("a") == turns.requests("b") == 0

    anyio.run(main)


def test_no_turn_is_lost_when_a_request_leaves_at_the_moment_of_its_turn():
    """A cancellation that comes after the turn was granted, and before the request notices it."""

    async def main() -> None:
        requests = Requests()
        scope = anyio.CancelScope()

        async def leaves() -> None:
            with scope:
                await requests.run("b1")

        async with anyio.create_task_group() as group:
            group.start_soon(requests.run, "a1")
            await until(lambda: requests.started == ["a1"])
            group.start_soon(leaves)
            await until(lambda: requests.turns.waiting == 1)
            group.start_soon(requests.run, "c1")
            await until(lambda: requests.turns.waiting == 2)
            requests.ends["a1"].set()
            await until(lambda: requests.turns.waiting == 1)  # b1 has the turn
            scope.cancel()
            await until(lambda: requests.started[-1] == "c1")
            requests.ends["c1"].set()

    anyio.run(main)


def test_closing_refuses_those_that_wait_and_those_that_come():
    async def main() -> None:
        requests = Requests()
        refused: list[str] = []

        async def run(name: str) -> None:
            with pytest.raises(LineFullError):
                await requests.run(name)
            refused.append(name)

        async with anyio.create_task_group() as group:
            group.start_soon(requests.run, "a1")
            await until(lambda: requests.started == ["a1"])
            group.start_soon(run, "b1")
            await until(lambda: requests.turns.waiting == 1)
            requests.turns.close()
            await until(lambda: refused == ["b1"])
            await run("c1")
            requests.ends["a1"].set()
        assert requests.started == ["a1"]

    anyio.run(main)


def test_the_expected_wait_follows_the_pace_and_the_rounds():
    now = [0.0]
    turns = UserTurns(1, clock=lambda: now[0])

    async def work(group: TaskGroup, user: str, count: int) -> None:
        async def run() -> None:
            async with turns.turn(user, patient):
                now[0] += 0.5
                await anyio.sleep(0)

        for _ in range(count):
            group.start_soon(run)

    async def main() -> None:
        assert turns.expected_wait("a") == 0, "nobody is there"
        async with anyio.create_task_group() as group:
            await work(group, "a", 40)
            await until(lambda: turns.waiting == 20)
            seconds = turns.pace.seconds()
            assert 0.4 < seconds < 0.6
            assert turns.expected_wait("a") == pytest.approx(21 * seconds)
            assert turns.expected_wait("b") == pytest.approx(2 * seconds), "one of a is first"
            now[0] += 1000
            assert turns.pace.seconds() > 10, "a standstill shows at once"
            now[0] -= 1000
        assert turns.expected_wait("a") == 0
        assert turns.pace.seconds() == pytest.approx(0.5, abs=0.1), "it is known for the next time"

    anyio.run(main)


def test_thousands_of_requests_leave_nothing_behind():
    """Requests of many users that come, leave and are served in a random order."""
    generator = random.Random(0)

    async def main() -> None:
        turns, served = UserTurns(5, max_waiting=200), []

        async def run(user: str, patience: int) -> None:
            async def wait(decided: anyio.Event) -> None:
                for _ in range(patience):
                    await anyio.sleep(0)
                    if decided.is_set():
                        return
                raise TimeoutError

            with suppress(TimeoutError, LineFullError):
                async with turns.turn(user, wait):
                    served.append(user)
                    assert turns._running.total() <= 5
                    assert turns._running[user] <= 3
                    await anyio.sleep(0)

        async with anyio.create_task_group() as group:
            for _ in range(3000):
                group.start_soon(run, str(generator.randrange(50)), generator.randrange(1, 200))
                if generator.random() < 0.2:
                    await anyio.sleep(0)
        assert len(set(served)) == 50
        assert turns.waiting == turns._running.total() == 0
        assert not turns._queues
        assert not turns._places

    anyio.run(main)


@pytest.mark.parametrize(("seconds", "header"), [(-3, 1), (0.2, 1), (7.2, 8), (1e9, 60)])
def test_retry_after_is_a_whole_number_of_seconds(seconds, header):
    assert retry_after(seconds) == header
