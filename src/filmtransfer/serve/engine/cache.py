"""The classifiers in memory: the most recently used ones within a memory limit, each loaded once."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from ...errors import UsageError
from .multi_user import Member

MB = 2**20
Key = tuple[str, str, int]  # user, project, version


class Cache:
    """At most ``megabytes`` of members by (user, project, version); the least recently used is removed first. Thread-safe."""

    def __init__(self, megabytes: float) -> None:
        if not megabytes >= 0:
            raise UsageError(f"A cache of {megabytes} MB is not possible.", "Give at least 0.")
        self.limit = int(megabytes * MB)
        self.nbytes = 0
        self.hits = 0
        self.misses = 0
        self._members: OrderedDict[Key, tuple[Member, int]] = OrderedDict()
        self._loading: dict[Key, Future[Member]] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._members)

    def get(self, key: Key, load: Callable[[], Member]) -> Member:
        """Return the member of a key; callers that arrive while it is loaded wait for it, and share its error."""
        with self._lock:
            if key in self._members:
                self.hits += 1
                self._members.move_to_end(key)
                return self._members[key][0]
            self.misses += 1
            future = self._loading.get(key)
            is_loader = future is None
            if future is None:
                future = self._loading[key] = Future()
        if not is_loader:
            return future.result()
        try:
            member = load()
        except BaseException as error:
            with self._lock:
                self._finish_loading(key, future)
            future.set_exception(error)
            raise
        with self._lock:
            if self._finish_loading(key, future):  # else it was dropped in the meantime
                self._add(key, member)
        future.set_result(member)
        return member

    def drop(self, user: str, project: str | None = None) -> None:
        """Remove all versions of a user, or of one project, including those that are being loaded."""

        def belongs(key: Key) -> bool:
            return key[0] == user and project in (None, key[1])

        with self._lock:
            for key in list(filter(belongs, self._members)):
                self.nbytes -= self._members.pop(key)[1]
            for key in list(filter(belongs, self._loading)):
                del self._loading[key]

    def _finish_loading(self, key: Key, future: Future[Member]) -> bool:
        """End the loading of a key; return whether it was not dropped."""
        wanted = self._loading.get(key) is future
        if wanted:
            del self._loading[key]
        return wanted

    def _add(self, key: Key, member: Member) -> None:
        size = member.nbytes
        if size > self.limit:
            return
        self._members[key] = (member, size)
        self.nbytes += size
        while self.nbytes > self.limit:
            self.nbytes -= self._members.popitem(last=False)[1][1]
