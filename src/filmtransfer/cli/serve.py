"""fit serve [FOLDER]"""

from __future__ import annotations

import importlib.util
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import MissingExtraError, UsageError, check_choice, check_count
from ..processes import LOOPBACK
from ..serve.settings import (
    CACHE_MB,
    DEFAULT_FOLDER,
    LEASE,
    MAX_LEASE,
    PORT,
    WORKER_IDLE,
    ServiceSettings,
    read_rate,
)
from .printing import Backbone, Json, Printer, Threads, Weights
from .progress import PhaseDisplay

if TYPE_CHECKING:
    from ..serve.store import JsonObject

REQUIRED = ("fastapi", "uvicorn", "sqlalchemy", "alembic", "fsspec", "prometheus_client")


def serve(
    folder: Annotated[Path, typer.Argument(help="The folder of the service.")] = Path(DEFAULT_FOLDER),
    host: Annotated[str, typer.Option(help="Address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free one.")] = PORT,
    database: Annotated[
        str | None, typer.Option(help="URL of another database, as in postgresql://name:password@host/base.")
    ] = None,
    objects: Annotated[
        str | None,
        typer.Option(help="Where photos and classifiers are stored, as in s3://bucket; else the database."),
    ] = None,
    backbone: Backbone = "efficientnet_lite0",
    weights: Weights = None,
    runtime: Annotated[
        str, typer.Option(help="What computes features: onnx (without torch), or torch.")
    ] = "onnx",
    workers: Annotated[
        int, typer.Option(help="Most worker processes, which train; started when needed.", min=0, max=64)
    ] = 1,
    worker_idle: Annotated[
        float,
        typer.Option(help="Seconds without a training until a worker ends; 0: all always run.", min=0),
    ] = WORKER_IDLE,
    lease: Annotated[
        float,
        typer.Option(
            help="Seconds after which a dead worker's training goes to another.", min=1, max=MAX_LEASE
        ),
    ] = LEASE,
    admin_token_file: Annotated[
        Path | None, typer.Option(help="File with the admin's token; else one is created in the folder.")
    ] = None,
    max_photo_mb: Annotated[float, typer.Option(help="The largest photo, in MB.")] = (
        ServiceSettings.max_photo_bytes // 1_000_000
    ),
    rate: Annotated[str, typer.Option(help="Most requests of one user, as in 600/minute.")] = (
        f"{ServiceSettings.rate}/minute"
    ),
    max_wait: Annotated[
        float, typer.Option(help="Seconds that a request with a photo may wait for its turn.", min=0)
    ] = ServiceSettings.max_wait,
    max_connections: Annotated[
        int, typer.Option(help="Most connections; fewer if the system allows fewer open files.", min=1)
    ] = ServiceSettings.max_connections,
    connections_per_address: Annotated[
        int | None,
        typer.Option(
            help="Most connections of one address, 0 without limit; by default 200 with --certificate, else 0.",
            min=0,
        ),
    ] = None,
    cache_mb: Annotated[int, typer.Option(help="Memory for cached classifiers, in MB.", min=1)] = CACHE_MB,
    certificate: Annotated[Path | None, typer.Option(help="TLS certificate (PEM).")] = None,
    key: Annotated[Path | None, typer.Option(help="Key of the certificate (PEM).")] = None,
    insecure_http: Annotated[
        bool, typer.Option("--insecure-http", help="Allow other machines without TLS.")
    ] = False,
    ray: Annotated[
        str | None, typer.Option(help="Run replicas on Ray: auto, local, or HOST:PORT of a cluster.")
    ] = None,
    replicas: Annotated[int, typer.Option(help="Number of replicas, with --ray.", min=1, max=1000)] = 2,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    """Serve the page and the API, with a classifier for each user. Ctrl-C ends it."""
    if any(importlib.util.find_spec(name) is None for name in REQUIRED):
        raise MissingExtraError("The service", "serve")
    check_choice("--runtime", runtime, ("onnx", "torch"))
    if threads is not None:
        check_count("threads", threads)
    if not 0.001 <= max_photo_mb <= 1000:
        raise UsageError(f"--max-photo-mb cannot be {max_photo_mb:g}.", "Use 0.001 to 1000.")
    printer = Printer(as_json)
    display = PhaseDisplay(printer.err, None)  # lines that stay: a service has no end to wait for
    display.phase(f"starting the service in {folder}")
    from ..serve import server

    config = server.ServerConfig(
        folder,
        server.ListenAddress(host, port, certificate, key, insecure_http),
        database=database,
        objects=objects,
        backbone=backbone,
        weights=Path(weights) if weights else None,
        runtime=runtime,  # type: ignore[arg-type]
        threads=threads,
        workers=workers,
        worker_idle=worker_idle,
        lease=lease,
        admin_token_file=admin_token_file,
        cache_mb=cache_mb,
        settings=ServiceSettings(
            max_photo_bytes=round(max_photo_mb * 1e6),
            rate=read_rate(rate),
            max_wait=max_wait,
            max_connections=max_connections,
            max_connections_of_address=connections_per_address,
        ),
    )

    def on_ready(about: JsonObject) -> None:
        printer.say(f"The page is at {about['link']}")
        if about["token"] is None:
            printer.say(server.explain_missing_token(config, about["url"]))
        printer.say(f"All data is in {about['folder']}; Ctrl-C ends the service.")
        printer.document(about)
        if open_page:
            webbrowser.open(about["link"])

    if ray is None:
        server.serve(config, printer.say, display.phase, on_ready)
    else:
        from ..serve.ray import serve_on_ray

        serve_on_ray(config, ray, replicas, printer.say, on_ready)
    printer.say("Ended.")
