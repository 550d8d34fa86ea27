"""The location of an update: a file, a folder in the hub's layout, or the hub itself.

The layout is a folder with ``update.safetensors`` and ``config.json``; ``hf://owner/name`` (``@revision`` behind
it, if wanted) is the same folder on the Hugging Face hub.
"""

from __future__ import annotations

import re
from pathlib import Path

from ..backbones.hub import hub_is_offline, hub_reachable
from ..errors import InputError, UnavailableError, UpdateFileError, UsageError, first_line

UPDATE = "update.safetensors"
CONFIG = "config.json"
SCHEME = "hf://"
ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+")  # a Path has one slash left; one letter is a drive
_NAME = r"\w(?:(?:(?!--|\.\.)[\w.-])*\w)?"  # the rule of the hub
REPOSITORY = re.compile(
    rf"({_NAME}/(?!.*\.git(?:@|$)){_NAME})(?:@(\w(?:(?!\.\.)[\w./-]){{0,254}}))?", re.ASCII
)
MAX_REPOSITORY = 96  # characters


def find_update(location: str | Path) -> Path:
    """Return the update file of a file, folder or ``hf://owner/name``."""
    address = ADDRESS.match(str(location))
    path = Path(location)
    if address and not path.exists():
        if address[1] != "hf":
            raise UsageError(
                f"{location} cannot be fetched: updates are files, folders or {SCHEME}OWNER/NAME.",
                "Download it first, and give the path of the file.",
            )
        return _fetch(*repository(SCHEME + str(location)[address.end() :]))
    if not path.is_dir():
        return path
    if not (path / UPDATE).is_file():
        raise UpdateFileError(
            f"{path} contains no {UPDATE}.", "Make such a folder with 'fit export FILE --hub FOLDER'."
        )
    return path / UPDATE


def repository(location: str) -> tuple[str, str | None]:
    """Return owner/name and the revision of ``hf://owner/name@revision``, with or without the scheme."""
    parts = REPOSITORY.fullmatch(location.removeprefix(SCHEME))
    if parts is None or len(parts[1]) > MAX_REPOSITORY:
        raise UsageError(
            f"{location} does not name a repository.", "Write OWNER/NAME, for example hf://ana/pets."
        )
    return parts[1], parts[2]


def check_online(what: str) -> None:
    """Raise an error at once if the hub cannot be reached; its client would try for most of a minute."""
    if hub_is_offline():
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
    except Exception as error:  # of the HTTP library
        raise UnavailableError(
            f"{SCHEME}{name} could not be fetched ({first_line(error)}).", "Try again later."
        ) from None
