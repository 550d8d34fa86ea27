"""Where an update is: a file, a folder in the hub's layout, or the hub itself.

The layout is a folder with ``update.safetensors`` and ``config.json``; ``hf://owner/name`` (``@revision`` behind
it, if wanted) is the same folder on the Hugging Face hub.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..backbones.weights import hub_reachable
from ..errors import InputError, UnavailableError, UpdateFileError, UsageError

UPDATE = "update.safetensors"
CONFIG = "config.json"
SCHEME = "hf://"


def find_update(place: str | Path) -> Path:
    """The update file of a file, folder or ``hf://owner/name``."""
    if str(place).startswith(SCHEME):
        return _fetch(*repository(str(place)))
    path = Path(place)
    if not path.is_dir():
        return path
    if not (path / UPDATE).is_file():
        raise UpdateFileError(
            f"{path} holds no {UPDATE}.", "Make such a folder with 'fit export FILE --hub FOLDER'."
        )
    return path / UPDATE


def repository(place: str) -> tuple[str, str | None]:
    """owner/name and the revision, from ``hf://owner/name@revision`` or without the scheme."""
    name, _, revision = place.removeprefix(SCHEME).partition("@")
    owner, _, rest = name.partition("/")
    if not owner or not rest or "/" in rest:
        raise UsageError(
            f"{place} does not name a repository.", "Write OWNER/NAME, for example hf://ana/pets."
        )
    return name, revision or None


def check_online(what: str) -> None:
    """Say at once that the hub cannot be reached; its client would try for most of a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise UnavailableError(f"{what}: HF_HUB_OFFLINE is set.", "Unset it to use the hub.")
    if not hub_reachable():
        raise UnavailableError(f"{what}: the hub cannot be reached.", "Try again with a network.")


def _fetch(name: str, revision: str | None) -> Path:
    from huggingface_hub import hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    kept = try_to_load_from_cache(name, UPDATE, revision=revision)
    if isinstance(kept, str):
        return Path(kept)
    check_online(f"{SCHEME}{name} is not on this machine")
    try:
        return Path(hf_hub_download(name, UPDATE, revision=revision))
    except HfHubHTTPError as error:
        raise InputError(
            f"{SCHEME}{name} could not be fetched ({first_line(error)}).",
            "Check its name, and that you may read it.",
        ) from None
    except Exception as error:  # the transport's own kinds
        raise UnavailableError(
            f"{SCHEME}{name} could not be fetched ({first_line(error)}).", "Try again later."
        ) from None


def first_line(error: Exception) -> str:
    """Return the first line of an error message, shortened."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
