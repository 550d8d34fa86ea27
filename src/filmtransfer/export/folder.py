"""The folder that an export writes into."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError


def make_folder(folder: str | Path) -> Path:
    """Create the folder if necessary; its parent must exist, so that a mistyped path creates no tree."""
    path = Path(folder)
    try:
        path.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise InputError(
            f"There is no folder {path.parent}.", "Create it first, or write elsewhere."
        ) from None
    except FileExistsError:
        raise InputError(f"{path} is a file, not a folder.", "Choose another name.") from None
    except OSError as error:
        raise InputError(
            f"{path} cannot be created ({error.strerror}).", "Choose another location."
        ) from None
    return path
