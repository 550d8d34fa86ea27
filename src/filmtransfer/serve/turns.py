"""Users take turns: no user's requests, however many, keep those of another one waiting behind all of them."""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

RECENT = 64  # turns over which the pace is measured
ENOUGH = 8  # turns after which a pace is known
STANDSTILL_SECONDS = 1.0  # in which nobody has got a turn although requests wait: then one has to end
UNDISTURBED_SECONDS = 3.0  # of a turn, in which it does not have to end for others


class LineFullError(Exception):
    """A request can have no turn: too many wait, or this one would wait for too long."""


@dataclass(eq=False)
class Turn:
    """A request that waits for its turn, or has it."""

    user: str
    arrival: int
    granted: bool = False
    decided: anyio.Event = field(default_factory=anyio.Event)  # it has its turn, or gets none
    begin: float = 0.0  # its turn's place in the rounds
    since: float = 0.0  # when it was granted
    idle: bool = (
        False  # whether it only waits, for its client or for another turn, so that it can end for others
    )
    progress: float = 0.0  # the part that has arrived of what the client sends
    cost: float | None = None  # seconds of a processor that it took, if known

    def remaining(self, seconds: float) -> float:
        """Return for how long the client will go on sending, at the pace of the ``seconds`` so far."""
        return seconds * (1 / self.progress - 1) if self.progress else math.inf


class Pace:
    """How long one turn takes, by the turns that ended while requests were waiting."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._ends: deque[float] = deque(maxlen=RECENT)
        self._known = 0.0  # seconds, of the last time that requests were waiting

    def count(self) -> None:
        """Count the end of a turn."""
        self._ends.append(self.clock())

    def pause(self) -> None:
        """Nobody waits now: the time until the next turn says nothing about the pace."""
        if self._ends:
            self._known = self.seconds()
            self._ends.clear()

    def seconds(self) -> float:
        """Return the seconds of one turn; 0 while they are not known. A standstill shows at once."""
        if len(self._ends) < ENOUGH:
            return self._known
        return (self.clock() - self._ends[0]) / len(self._ends)


class UserTurns:
    """Grants turns, a few at the same time, in rounds: a user has one in each round, requests of a round in their order.

    A user who comes back in the same round gets a turn in the next one, so neither many requests at once nor many one
    after the other are an advantage (start-time fair queueing, Goyal, Vin and Cheng 1996). Turns have equal costs, or, if
    they are ``measured``, cost the seconds that they take of a processor, or altogether: a turn of ten seconds delays the next one of its user by as many
    rounds as ten turns of one second. A user who holds turns gets one more only while more than those are free (a dynamic
    threshold, Choudhury and Hahne 1998): one user holds at most half of them, two a third each, and so on, so a few users
    who keep their turns for long leave some to the others. At most ``max_waiting`` requests wait. When the line is full, the
    last request of the user who has most of them there makes room for one of a user who has fewer. When nobody gets a turn
    for a while, one that is idle has to end (``must_end``).
    """

    def __init__(
        self,
        at_once: int,
        max_waiting: int | None = None,
        measured: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.at_once = at_once
        self.max_waiting = max_waiting
        self.measured = measured
        self.clock = clock
        self.pace = Pace(clock)
        self.waiting = 0
        self.closed = False
        self._arrivals = itertools.count()
        self._running: Counter[str] = Counter()
        self._turns: set[Turn] = set()  # those that are held
        self._queues: dict[str, OrderedDict[Turn, None]] = {}  # the waiting requests of each user
        self._line: list[tuple[float, int, str]] = []  # a heap: begin, arrival and user of the next turns
        # The entry of a user in the heap; others are outdated.
        self._places: dict[str, tuple[float, int, str]] = {}
        self._round = 0.0  # the begin of the last turn
        self._next: dict[
            str, float
        ] = {}  # the earliest begin of the next turn of users, unless it is before this round
        self._moved = 0.0  # when the line last became shorter, or was empty

    def requests(self, user: str) -> int:
        """Return how many requests of a user are running or waiting."""
        return self._running[user] + len(self._queues.get(user, ()))

    def expected_wait(self, user: str) -> float:
        """Return the seconds that the next request of a user will probably wait; 0 if that is not known."""
        if self._has_room(user):
            return 0.0
        seconds, position = self.pace.seconds(), len(self._queues.get(user, ())) + 1
        ahead = sum(min(len(queue), position) for other, queue in self._queues.items() if other != user)
        return seconds * (ahead + position) if seconds else 0.0

    @property
    def contended(self) -> bool:
        """Whether a request waits for no other reason than that all turns are taken."""
        return bool(self._places)

    def must_end(self, turn: Turn) -> bool:
        """Return whether an idle turn has to end for others: nobody has got a turn for a while, although requests wait.

        Among the idle turns of the user who holds most turns, that is the one whose client would need longest. So however
        slow clients are, a turn ends each second, and the line moves on.
        """
        now = self.clock()
        if not self.contended or now - self._moved < STANDSTILL_SECONDS:
            return False
        idle = [one for one in self._turns if one.idle and now - one.since >= UNDISTURBED_SECONDS]
        last = max(
            idle,
            key=lambda one: (self._running[one.user], one.remaining(now - one.since), one.arrival),
            default=None,
        )
        return turn is last

    @asynccontextmanager
    async def turn(self, user: str, wait: Callable[[anyio.Event], Awaitable[None]]) -> AsyncIterator[Turn]:
        """Hold a turn; ``wait`` waits for the event, or raises an error to stop waiting.

        ``LineFullError`` is raised if the line is full, now or later, and when it is closed.
        """
        request = self._join(user)
        try:
            if not request.decided.is_set():
                await wait(request.decided)
            if not request.granted:
                raise LineFullError
            yield request
        finally:
            self._leave(request)

    def close(self) -> None:
        """Grant no more turns; requests that wait get none, at once."""
        self.closed = True
        for queue in list(self._queues.values()):
            for request in list(queue):
                self._drop(request)

    def _has_room(self, user: str) -> bool:
        """Return whether a request would have its turn at once."""
        free = self._running.total() < self.at_once and not self._places
        return free and self._may_hold_one_more(user) and user not in self._queues

    def _may_hold_one_more(self, user: str) -> bool:
        """Return whether a user holds fewer turns than are free, or none."""
        held = self._running[user]
        return held == 0 or held < self.at_once - self._running.total()

    def _join(self, user: str) -> Turn:
        if self.closed:
            raise LineFullError
        request = Turn(user, next(self._arrivals))
        full = self.max_waiting is not None and self.waiting >= self.max_waiting
        if full and not self._has_room(user):
            self._make_room(user)
        self._queues.setdefault(user, OrderedDict())[request] = None
        self.waiting += 1
        self._place(user)
        self._grant()
        return request

    def _make_room(self, user: str) -> None:
        """Drop the last request of the user who has most; raise ``LineFullError`` if that is this user."""
        longest = max(self._queues.values(), key=len)
        if len(longest) <= len(self._queues.get(user, ())) + 1:
            raise LineFullError
        self._drop(next(reversed(longest)))

    def _drop(self, request: Turn) -> None:
        self._remove(request)
        request.decided.set()

    def _place(self, user: str) -> None:
        """Give a user who waits, and may have one more turn, a place in the line."""
        queue = self._queues.get(user)
        if not queue or user in self._places or not self._may_hold_one_more(user):
            return
        if not self._places:
            self._moved = self.clock()
        place = (max(self._round, self._next.get(user, 0)), next(iter(queue)).arrival, user)
        self._places[user] = place
        heapq.heappush(self._line, place)

    def _grant(self) -> None:
        while self._places and self._running.total() < self.at_once:
            place = heapq.heappop(self._line)
            begin, _, user = place
            if self._places.get(user) is not place:  # the user has left the line since
                continue
            if not self._may_hold_one_more(user):  # fewer are free than when it joined the line
                del self._places[user]
                continue
            request = next(iter(self._queues[user]))
            self._remove(request)
            self._places.pop(user, None)
            self._running[user] += 1
            self._turns.add(request)
            request.begin, request.since = begin, self.clock()
            self._moved = request.since
            if begin > self._round:
                self._round = begin
                self._next = {u: least for u, least in self._next.items() if least > begin}
            if not self.measured:
                self._charge(request, 1)
            request.granted = True
            request.decided.set()
            self._place(user)

    def _charge(self, turn: Turn, cost: float) -> None:
        """Delay the next turn of a user by the cost of this one."""
        self._next[turn.user] = max(self._next.get(turn.user, 0), turn.begin) + cost
        self._places.pop(turn.user, None)  # the user's place in the line, if there is one, is later now

    def _remove(self, request: Turn) -> None:
        """Remove a request that waits."""
        queue = self._queues[request.user]
        del queue[request]
        self.waiting -= 1
        if not queue:
            del self._queues[request.user]
            self._places.pop(request.user, None)
            if len(self._line) > 2 * len(self._places) + RECENT:  # mostly outdated entries
                self._line = sorted(self._places.values())

    def _leave(self, request: Turn) -> None:
        user = request.user
        if request.granted:
            self.pace.count() if self.waiting else self.pace.pause()
            if self.measured:
                held = self.clock() - request.since
                self._charge(request, held if request.cost is None else request.cost)
            self._turns.discard(request)
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
        elif request in self._queues.get(user, ()):
            self._remove(request)
        for one in {user, *self._running}:  # one more turn is free: those who hold some may hold more now
            self._place(one)
        self._grant()


def retry_after(seconds: float, most: float = 60.0) -> int:
    """Return whole seconds for the header Retry-After: at least one, and no more than is predictable."""
    return math.ceil(min(max(seconds, 1.0), most))
