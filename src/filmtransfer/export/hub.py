"""Write a folder in the layout of the Hugging Face hub, and upload it.

update.safetensors   the trained parameters, which every entry point of filmtransfer can load
config.json          the same metadata for programs that do not open it
README.md            the model card
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from .. import __version__
from ..errors import InputError, UnavailableError, first_line
from ..files import make_folder, write_atomically
from ..model import Update
from ..model.hub import CONFIG, SCHEME, UPDATE, check_online, repository
from ..model.ood import FALSE_ALARM
from .model_card import model_card
from .rejection import Rejection

README = "README.md"


def config(update: Update) -> dict[str, object]:
    """Return what a program may want to know before it loads the update."""
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


def write_hub(
    update: Update,
    folder: str | Path,
    repository_name: str | None = None,
    false_alarm: float = FALSE_ALARM,
) -> list[Path]:
    """Write the three files and leave others in the folder untouched.

    The update is compact: names and stored features of photos are not for everyone who downloads the folder.
    The model card mentions the repository's name, and how images are rejected at this false-alarm rate.
    """
    target = make_folder(folder)
    location = f"{SCHEME}{repository_name}" if repository_name else ""
    contents = {
        UPDATE: update.compact().to_bytes(),
        CONFIG: (json.dumps(config(update), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(
            "utf-8",
            "backslashreplace",  # which is how JSON spells unpaired surrogates
        ),
        README: model_card(
            update, "hub", Rejection.of(update.predictor(), false_alarm), location=location
        ).encode(),
    }
    for name, content in contents.items():
        write_atomically(target / name, content)
    return [target / name for name in contents]


def push(folder: str | Path, name: str, *, private: bool = True) -> str:
    """Upload a folder's three files to ``owner/name`` on the hub and return the address there."""
    repo_id, revision = repository(name)
    check_online(f"{repo_id} cannot be written")
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, LocalTokenNotFoundError

    api = HfApi()
    try:
        api.create_repo(repo_id, private=private, exist_ok=True)
        api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            revision=revision,
            allow_patterns=[UPDATE, CONFIG, README],
            commit_message="Update by filmtransfer",
        )
    except (HfHubHTTPError, LocalTokenNotFoundError) as error:
        raise InputError(
            f"The hub rejected {repo_id} ({first_line(error)}).",
            "Log in with 'hf auth login', and check the name.",
        ) from None
    except Exception as error:  # the HTTP client's own exceptions
        raise UnavailableError(
            f"{repo_id} could not be uploaded ({first_line(error)}).", "Try again later."
        ) from None
    return f"https://huggingface.co/{repo_id}"
