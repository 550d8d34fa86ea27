"""Dependencies of the routes: the service, its store, the authenticated user and project, and JSON bodies."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from fastapi import Depends, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from .decoders import Decoders
from .downloads import DownloadMaker
from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .errors import ApiError
from .metrics import Metrics
from .readiness import Check, Readiness
from .settings import ServiceSettings
from .store import ProjectId, Store, User
from .turns import UserTurns


@dataclass
class Service:
    """What the routes of one application share."""

    store: Store
    engine: Engine
    batcher: Batcher
    cache: Cache
    settings: ServiceSettings
    weights: Path | None = None  # of the backbone, unless they come with it
    metrics: Metrics = field(default_factory=Metrics)
    stopping: threading.Event = field(default_factory=threading.Event)  # when set, event streams end
    event_streams: Counter[str] = field(default_factory=Counter)  # open ones by user
    on_photo: Callable[[], None] = lambda: None  # called when a photo was added: a training may follow
    on_training: Callable[[], None] = lambda: None  # called when a training was requested
    can_train: Callable[[], bool] = lambda: True  # unless the workers of this process cannot be started

    def __post_init__(self) -> None:
        self.uploads = self._turns(self.settings.max_uploads)
        self.file_uploads = self._turns(self.settings.max_file_uploads)
        self.decoding = self._turns(self.settings.decoders, measured=True)
        self.decoders = Decoders(self.settings)
        self.downloads = DownloadMaker(self.store, self.settings, self.metrics, self.weights)
        self.health = Check(self.store.ping)
        self.readiness = Readiness(
            {
                "store": self.store.is_writable,
                "space": lambda: self.store.has_space(self.settings.max_photo_bytes),
                "engine": lambda: self.batcher.running,
                "workers": lambda: self.can_train(),
                "running": lambda: not self.stopping.is_set(),
            }
        )

    def _turns(self, at_once: int, measured: bool = False) -> UserTurns:
        return UserTurns(at_once, self.settings.max_waiting, measured)

    def end(self) -> None:
        """End what would keep the service from ending: event streams, requests that wait for a turn, and decoders."""
        self.stopping.set()
        for turns in (self.uploads, self.file_uploads, self.decoding, self.downloads.turns):
            turns.close()
        self.decoders.close()


def content_type(request: Request) -> str:
    """Return the content type of a request in lower case, without parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _store(request: Request) -> Store:
    return _service(request).store


_user_scheme = HTTPBearer(scheme_name="user", description="A user's token.", auto_error=False)
_admin_scheme = HTTPBearer(scheme_name="admin", description="The admin's token.", auto_error=False)


def _current_user(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_user_scheme)]
) -> User:
    user: User | None = request.state.user
    if user is None:
        raise ApiError(
            403, "users_only", "The admin's token gives no access to users' data.", "Use a user's token."
        )
    return user


def _current_project(
    user: Annotated[User, Depends(_current_user)],
    store: Annotated[Store, Depends(_store)],
    project: Annotated[
        str | None, Query(description="One of your projects; without it, the oldest one. Any other is 404.")
    ] = None,
) -> ProjectId:
    return store.projects.resolve(user.id, project)


def _require_admin(
    request: Request, _: Annotated[HTTPAuthorizationCredentials | None, Security(_admin_scheme)]
) -> None:
    if not request.state.admin:
        raise ApiError(403, "admin_only", "Only the admin may do this.", "Use the admin's token.")


def _require_json(request: Request) -> None:
    """Refuse another content type, which is all that a form on another site can send."""
    kind = content_type(request)
    empty = (
        not kind
        and request.headers.get("content-length", "0") == "0"
        and "transfer-encoding" not in request.headers
    )
    if kind != "application/json" and not empty:
        raise ApiError(415, "bad_type", "The body is not JSON.", "Send 'Content-Type: application/json'.")


ServiceDep = Annotated[Service, Depends(_service)]
StoreDep = Annotated[Store, Depends(_store)]
CurrentUser = Annotated[User, Depends(_current_user)]
CurrentProject = Annotated[ProjectId, Depends(_current_project)]
AdminOnly = Depends(_require_admin)
JsonOnly = Depends(_require_json)
