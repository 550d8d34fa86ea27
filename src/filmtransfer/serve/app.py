"""The application: routes and middleware over a store and an engine."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI

from .. import __version__
from . import errors
from .auth import AuthenticationMiddleware
from .deps import Service
from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .limits import BodyLimitMiddleware, Refusals
from .request_log import RequestLogMiddleware
from .routes import classes, me, photos, predictions, projects, public, trainings, users, versions
from .settings import ServiceSettings
from .store import Store

DESCRIPTION = """Few-shot image classification for many users: photos in, a small classifier out.

Send `Authorization: Bearer TOKEN`. Every error has the same format and says what to do next."""


def create_app(
    store: Store,
    engine: Engine,
    batcher: Batcher,
    cache: Cache,
    settings: ServiceSettings | None = None,
    weights: Path | None = None,
) -> FastAPI:
    """Return the application; the caller closes the store and the batcher. ``weights`` is the file of the engine's weights."""
    service = Service(store, engine, batcher, cache, settings or ServiceSettings(), weights)
    app = FastAPI(
        title="filmtransfer",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # Swagger's page loads files from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    batcher.on_batch = service.metrics.batch.observe
    errors.install_handlers(app)
    for module in (users, me, projects, classes, photos, trainings, predictions, versions, public):
        app.include_router(module.router)
    # The middleware that is added last receives a request first.
    refusals = Refusals()
    app.add_middleware(
        BodyLimitMiddleware,
        settings=service.settings,
        photos=service.uploads,
        files=service.file_uploads,
        refusals=refusals,
    )
    app.add_middleware(AuthenticationMiddleware, store=store, settings=service.settings, refusals=refusals)
    app.add_middleware(RequestLogMiddleware, metrics=service.metrics)
    return app
