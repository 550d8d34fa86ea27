"""Files that are made when a user downloads them: an ONNX graph, a web page, a report.

Making them takes torch and seconds, so a child process does it (make_download.py), with limits on time and memory. Few are
made at the same time; users take turns. The child gets the files it needs and the environment variables in ENVIRONMENT, not
those with which the service accesses its store; it downloads nothing.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio import to_thread

from ..data.digest import DIGEST
from ..errors import UnavailableError
from ..files import CACHE_VARIABLE, make_folder
from ..processes import ChildProcess
from .errors import ApiError
from .make_download import ERROR_FILE, MADE_FILE, REPORT_FILE, THUMBNAILS, UPDATE_FILE, DownloadKind
from .metrics import Metrics
from .present_names import present_content
from .settings import ServiceSettings
from .store import NotFoundError, ProjectId, Store
from .turns import LineFullError, UserTurns

MODULE = "filmtransfer.serve.make_download"
POLL_SECONDS = 0.1
ALTERNATIVE = "Try again later, or download the update file and use 'fit export' on your own machine."
ENVIRONMENT = (  # variables that the child may have: programs, language, temporary files, and where caches are
    *("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "VIRTUAL_ENV"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "DYLD_LIBRARY_PATH", "OPENBLAS_CORETYPE"),
    *(CACHE_VARIABLE, "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "TORCH_HOME"),
)
SETTINGS = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",  # the service has the weights of its backbone already
}

log = logging.getLogger("filmtransfer.serve")

Check = Callable[[], Awaitable[None]]  # raises an error if nobody waits for the file any more


class DownloadMaker:
    """Makes files for downloads, a few at the same time."""

    def __init__(
        self, store: Store, settings: ServiceSettings, metrics: Metrics, weights: Path | None
    ) -> None:
        self.store = store
        self.settings = settings
        self.metrics = metrics
        self.weights = weights
        self.turns = UserTurns(settings.max_downloads)

    async def make(
        self,
        kind: DownloadKind,
        user: str,
        project: ProjectId,
        number: int,
        is_unwanted: Callable[[], Awaitable[bool]],
    ) -> bytes:
        """Return the file of a version; stop when ``is_unwanted``, that is, the client or the service has left."""
        await to_thread.run_sync(self.store.versions.get, project, number)  # 404 before any waiting

        async def check() -> None:
            if await is_unwanted():
                raise UnavailableError("The file is not made, because nobody waits for it.")

        result = "failed"
        try:
            async with self._turn(user, check):
                with tempfile.TemporaryDirectory(prefix="fit-download-") as temporary:
                    folder = Path(temporary)
                    await to_thread.run_sync(self._write_inputs, kind, project, number, folder)
                    await self._run(kind, folder, check)
                    content = await to_thread.run_sync((folder / MADE_FILE).read_bytes)
            result = "made"
        finally:
            self.metrics.downloads.labels(kind, result).inc()
        return content

    @asynccontextmanager
    async def _turn(self, user: str, check: Check) -> AsyncIterator[None]:
        """Wait until this file may be made; refuse if that takes too long, or if the user waits for several already."""
        if self.turns.requests(user) >= self.settings.max_downloads_of_user:
            raise ApiError(
                429, "too_many", "You are waiting for several files already.", "Wait for one.", retry=5
            )
        deadline = anyio.current_time() + self.settings.max_download_wait

        async def check_waiting() -> None:
            await check()
            if anyio.current_time() > deadline:
                raise ApiError(503, "busy", "Other files are being made.", "Try again in a moment.", retry=30)

        async def wait(granted: anyio.Event) -> None:
            while not granted.is_set():
                await check_waiting()
                with anyio.move_on_after(POLL_SECONDS):
                    await granted.wait()

        try:
            async with self.turns.turn(user, wait):
                yield
        except LineFullError:
            raise UnavailableError("The service is ending.", "Try again in a moment.") from None

    def _write_inputs(self, kind: DownloadKind, project: ProjectId, number: int, folder: Path) -> None:
        """Write what the child needs: the update file, and for a report the thumbnails of the project's photos."""
        (folder / UPDATE_FILE).write_bytes(present_content(self.store, project, number))
        if kind != "report":
            return
        title = f"{self.store.projects.get(project).name}, version {number}"
        (folder / REPORT_FILE).write_text(json.dumps({"title": title}))
        thumbnails = make_folder(folder / THUMBNAILS)
        for photo in self.store.photos.all(project):
            file = thumbnails / f"{photo.digest[:DIGEST]}.jpg"
            with suppress(NotFoundError):  # deleted since they were listed, as others before
                file.write_bytes(self.store.photos.thumbnail(project, photo.id))

    async def _run(self, kind: DownloadKind, folder: Path, check: Check) -> None:
        """Run the child until it has made the file."""
        seconds = self.settings.max_download_seconds
        arguments = [kind, str(folder), "--seconds", str(seconds)]
        arguments += ["--megabytes", str(self.settings.max_download_megabytes)]
        arguments += [] if self.weights is None else ["--weights", str(self.weights)]
        child = ChildProcess(MODULE, arguments, folder / "log", child_environment(os.environ))
        try:
            with anyio.move_on_after(seconds) as limit:
                while child.alive():
                    await check()
                    await anyio.sleep(POLL_SECONDS)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(child.stop)
        if limit.cancelled_caught:
            raise _failure(f"The file could not be made within {seconds} s.")
        if child.process.returncode != 0:
            raise await to_thread.run_sync(_read_error, folder, child)


def child_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the child: none of the credentials that the service may have in its own."""
    return {name: environment[name] for name in ENVIRONMENT if name in environment} | SETTINGS


def _read_error(folder: Path, child: ChildProcess) -> ApiError:
    """Return the error that the child reported; the details of one that it did not expect go to the log only."""
    try:
        document = json.loads((folder / ERROR_FILE).read_text())
    except (OSError, ValueError):
        log.error("a download failed with exit code %s: %s", child.process.returncode, child.last_line())
        return _failure("The file could not be made.")
    status = 503 if document["exit_code"] == UnavailableError.exit_code else 409
    code = "unavailable" if status == 503 else "conflict"
    return ApiError(status, code, document["message"], document["hint"] or ALTERNATIVE)


def _failure(message: str) -> ApiError:
    return ApiError(503, "unavailable", message, ALTERNATIVE)
