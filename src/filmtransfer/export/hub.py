"""A folder in the layout of the Hugging Face hub, and sending it there.

update.safetensors   what was learned, readable by every door of filmtransfer
config.json          the same facts for programs that do not open it
README.md            the model card
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import InputError, UnavailableError
from ..files import write_atomically
from ..model import Update
from ..model.hub import CONFIG, SCHEME, UPDATE, check_online, repository
from .card import card
from .folder import make_folder

README = "README.md"


def config(update: Update) -> dict[str, Any]:
    """What a program may want to know before it loads anything."""
    return {
        "library_name": "filmtransfer",
        "filmtransfer_version": __version__,
        "task": "image-classification",
        "backbone": update.backbone,
        "backbone_sha256": update.backbone_digest,
        "head": update.head,
        "pixels": asdict(update.pixels),
        "num_labels": len(update.classes),
        "id2label": {str(i): str(name) for i, name in enumerate(update.classes)},
        "label2id": {str(name): i for i, name in enumerate(update.classes)},
        "counts": update.counts,
    }


def write_hub(update: Update, folder: str | Path, name: str | None = None) -> list[Path]:
    """Write the three files; whatever else is in the folder stays. ``name`` is what it will be called on the hub."""
    place = make_folder(folder)
    contents = {
        UPDATE: update.to_bytes(),
        CONFIG: (json.dumps(config(update), indent=2, ensure_ascii=False) + "\n").encode(),
        README: card(update, "hub", place=f"{SCHEME}{name}" if name else "").encode(),
    }
    for name, content in contents.items():
        write_atomically(place / name, content)
    return [place / name for name in contents]


def push(folder: str | Path, name: str, *, private: bool = True) -> str:
    """Send a folder's three files to owner/name on the hub; its address there."""
    owner, revision = repository(name)
    check_online(f"{owner} cannot be written")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api = HfApi()
    try:
        api.create_repo(owner, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=owner,
            folder_path=folder,
            revision=revision,
            allow_patterns=[UPDATE, CONFIG, README],
            commit_message="Update by filmtransfer",
        )
    except (HfHubHTTPError, LocalTokenNotFoundError) as error:
        raise InputError(
            f"The hub did not take {owner} ({_first(error)}).",
            "Log in with 'hf auth login', and check the name.",
        ) from None
    except Exception as error:  # the transport's own kinds
        raise UnavailableError(f"{owner} could not be sent ({_first(error)}).", "Try again later.") from None
    return f"https://huggingface.co/{owner}"


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
