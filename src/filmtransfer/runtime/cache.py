"""Where graphs are kept: one file each in the user's cache folder.

A file is a line with the format and the SHA-256 of the rest, and the graph. A damaged file counts as missing, so that the
graph is made again. Files are renamed into place: of two processes that make the same graph one wins, and none waits.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import warnings
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ..errors import FitError, FitWarning, InputError, UnavailableError, UpdateFileError
from ..files import CACHE_VARIABLE, cache_folder, check_writable, make_folder, reading, write_atomically
from ..processes import ChildProcess
from .facts import FORMAT, GraphKey
from .session import FeatureSession, MissingRuntimeError

MOST_SECONDS = 600  # to make a graph
PREPARE_MODULE = "filmtransfer.runtime.prepare"


class DamagedGraphError(UpdateFileError):
    """A file of the cache is not complete."""


def graph_folder() -> Path:
    """Return the folder of the graphs, which need not exist."""
    return cache_folder() / "graphs"


def find(key: GraphKey, threads: int) -> FeatureSession | None:
    """Return the stored graph, opened; None if there is none, or if onnxruntime is not installed.

    A graph that was checked with another version of onnxruntime counts as missing where torch can check a new one.
    """
    path = graph_folder() / key.file_name
    if not path.is_file():
        return None
    try:
        session = FeatureSession(read_graph(path), threads)
        if session.facts.key != key:
            raise UpdateFileError("It is the graph of another backbone.")
    except MissingRuntimeError:
        return None
    except UpdateFileError as error:
        warnings.warn(FitWarning(f"{path} cannot be used: {error.message}"), stacklevel=2)
        if isinstance(error, DamagedGraphError):
            with suppress(OSError):  # it is made again, and this is said once
                path.unlink()
        return None
    return session if session.facts.is_checked or find_spec("torch") is None else None


def store(key: GraphKey, content: bytes) -> bool:
    """Keep a graph for the next process; return whether that was possible, and warn otherwise."""
    folder = graph_folder()
    try:
        make_folder(folder, parents=True)
        write_atomically(folder / key.file_name, _header(content) + content)
    except InputError as error:
        _warn_not_kept(key.backbone, error)
        return False
    return True


def read_graph(path: Path) -> bytes:
    """Return the graph in a file of the cache; raise an error if the file is not complete."""
    with reading(path, error=UpdateFileError):
        header, newline, content = path.read_bytes().partition(b"\n")
    if header + newline != _header(content):
        raise DamagedGraphError("It is damaged, or not a graph of this version. It is made again.")
    return content


def prepare_in_child(
    backbone: str,
    size: int,
    film_from: int | None,
    *,
    weights: str | Path | None = None,
    digest: str | None = None,
    threads: int = 1,
) -> FeatureSession:
    """Make a graph in a child process, or find it there, for a process that does not import torch itself.

    ``digest`` is what the digest of the weights has to be, where that is known.
    """
    arguments = ["--backbone", backbone, "--size", str(size), "--film-from", str(film_from).lower()]
    arguments += [
        "--threads",
        "1",
        "--end-with-parent",
        *([] if weights is None else ["--weights", str(weights)]),
    ]
    with tempfile.TemporaryDirectory() as temporary:
        folder = writable_folder(backbone) or Path(temporary, "graphs")
        environment = os.environ | {CACHE_VARIABLE: str(folder.parent)}
        child = ChildProcess(PREPARE_MODULE, arguments, Path(temporary, "log"), environment)
        try:
            code = child.process.wait(MOST_SECONDS)
        except subprocess.TimeoutExpired:
            raise UnavailableError(
                f"The graph of {backbone} could not be made in {MOST_SECONDS} s."
            ) from None
        finally:
            child.stop()
        if code != 0:
            raise UnavailableError(f"The graph of {backbone} could not be made ({child.last_line()}).")
        session = FeatureSession(read_graph(folder / child.last_line()), threads)
    made = session.facts.key.digest
    if digest not in (None, made):
        raise UpdateFileError(
            f"The weights of {backbone} here are {made[:12]}…, not {digest[:12]}….",
            "Give the weights file that it was trained with.",
        )
    return session


def writable_folder(backbone: str) -> Path | None:
    """Return the folder of the graphs, created if necessary; None, with a warning, if it cannot be written."""
    folder = graph_folder()
    try:
        check_writable(make_folder(folder, parents=True) / "graph")
    except FitError as error:
        _warn_not_kept(backbone, error)
        return None
    return folder


def _warn_not_kept(backbone: str, error: FitError) -> None:
    warnings.warn(
        FitWarning(
            f"The graph of {backbone} cannot be kept: {error.message} Every prediction will take the seconds that torch "
            f"needs. Set {CACHE_VARIABLE} to a folder that can be written."
        ),
        stacklevel=3,
    )


def _header(content: bytes) -> bytes:
    return f"filmtransfer graph {FORMAT} {hashlib.sha256(content).hexdigest()}\n".encode()
