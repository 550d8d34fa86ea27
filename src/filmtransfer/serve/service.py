"""What the routes work with, and how they get at it."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated

import anyio
from fastapi import Depends, Request

from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .metrics import Metrics
from .settings import Settings
from .store import Store


@dataclass
class Service:
    """One backbone, one store, and what stands between them and the visitors."""

    store: Store
    engine: Engine
    batcher: Batcher
    cache: Cache
    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)
    stopping: threading.Event = field(default_factory=threading.Event)  # event streams end when it is set
    streams: Counter[str] = field(default_factory=Counter)  # open event streams by user

    def __post_init__(self) -> None:
        self.decoding = anyio.CapacityLimiter(self.settings.decoders)


def _service(request: Request) -> Service:
    found: Service = request.app.state.service
    return found


def _store(request: Request) -> Store:
    return _service(request).store


TheService = Annotated[Service, Depends(_service)]
TheStore = Annotated[Store, Depends(_store)]
