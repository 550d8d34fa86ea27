"""A folder to write into, made if it is not there."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError


def make_folder(folder: str | Path) -> Path:
    """The folder; its parent has to exist, so that a mistyped path makes no tree."""
    place = Path(folder)
    try:
        place.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise InputError(
            f"There is no folder {place.parent}.", "Make it first, or write elsewhere."
        ) from None
    except FileExistsError:
        raise InputError(f"{place} is a file, not a folder.", "Choose another name.") from None
    except OSError as error:
        raise InputError(f"{place} cannot be made ({error.strerror}).", "Choose another place.") from None
    return place
