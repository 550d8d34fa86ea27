"""The application: what stands between a socket and the store."""

from __future__ import annotations

from fastapi import FastAPI

from .. import __version__
from . import errors
from .auth import Door
from .engine.batcher import Batcher
from .engine.cache import Cache
from .engine.multi_user import Engine
from .limits import Bodies
from .routes import classes, me, photos, predictions, public, trainings, users, versions
from .service import Service
from .settings import Settings
from .store import Store
from .watch import Watch

ABOUT = """Few-shot image classification for many users: photos in, a small classifier out.

Send `Authorization: Bearer TOKEN`. Every error has the same shape and says what to do next."""


def create_app(
    store: Store, engine: Engine, batcher: Batcher, cache: Cache, settings: Settings | None = None
) -> FastAPI:
    """The service over a store and an engine; who made these closes them."""
    service = Service(store, engine, batcher, cache, settings or Settings())
    app = FastAPI(
        title="filmtransfer",
        version=__version__,
        description=ABOUT,
        docs_url=None,  # Swagger's page would come from somewhere else
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    batcher.watch = service.metrics.batch.observe
    errors.install(app)
    for noun in (users, me, classes, photos, trainings, predictions, versions, public):
        app.include_router(noun.router)
    # The last one added is the first to see a request.
    app.add_middleware(Bodies, settings=service.settings)
    app.add_middleware(Door, store=store, settings=service.settings)
    app.add_middleware(Watch, metrics=service.metrics)
    return app
