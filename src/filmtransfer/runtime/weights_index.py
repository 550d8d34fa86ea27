"""Which digest the weights of a backbone have, remembered, so that their graph is found without loading them.

The digest is that of the loaded tensors, which takes torch. The index in the cache folder has it by what identifies the
weights: the version of a package, or the path, size and time of a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from ..backbones import record_for
from ..errors import InputError, UpdateFileError
from ..files import make_folder, write_atomically
from .cache import find as find_graph
from .cache import graph_folder, prepare_in_child
from .facts import GraphKey, package_version
from .session import FeatureSession

FILE = "weights.json"


def open_graph(
    backbone: str,
    key: GraphKey,
    *,
    weights: str | Path | None = None,
    threads: int = 1,
    on_phase: Callable[[str], None] | None = None,
) -> FeatureSession:
    """Return the graph of a backbone, made in a child process if it is not stored; torch is not imported here.

    The ``digest`` of the key may be empty: that of the weights at hand is found or computed. ``on_phase`` is called
    with a line before the graph is made, since that takes many seconds.
    """
    source = weights_source(backbone, weights)
    known = key.digest or _read_index().get(source, "")
    if known and (session := find_graph(key.with_digest(known), threads)) is not None:
        return session
    if on_phase is not None:
        on_phase(
            f"preparing {backbone} for images of {key.size} pixels, which takes half a minute and is done once"
        )
    session = prepare_in_child(
        backbone, key.size, key.film_from, weights=weights, digest=key.digest or None, threads=threads
    )
    made = session.facts.key
    if made != key.with_digest(made.digest):
        raise UpdateFileError(f"{backbone} takes images in another format.", "Train it again.")
    remember(backbone, weights, made.digest)
    return session


def weights_source(backbone: str, weights: str | Path | None) -> str:
    """Return what identifies the weights without reading them."""
    record = record_for(backbone)
    if weights is not None:
        path = Path(weights).expanduser().resolve()
        if not path.is_file():
            raise UpdateFileError(f"There is no weights file {weights}.", "Check the path given as weights.")
        about = path.stat()
        return f"{record.name} {path} {about.st_size} {about.st_mtime_ns}"
    return f"{record.name} {record.package or record.timm_name} {package_version(record.package or 'timm')}"


def _read_index() -> dict[str, str]:
    try:
        index = json.loads((graph_folder() / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return index if isinstance(index, dict) else {}


def remember(backbone: str, weights: str | Path | None, digest: str) -> None:
    """Write the digest of these weights to the index; without it the digest is computed again the next time."""
    known, source = _read_index(), weights_source(backbone, weights)
    if known.get(source) == digest:
        return
    try:
        content = json.dumps(known | {source: digest}, indent=1, sort_keys=True)
        write_atomically(make_folder(graph_folder(), parents=True) / FILE, content.encode())
    except InputError:
        pass  # storing the graph has warned already
