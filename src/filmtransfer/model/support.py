"""The support images of a task as an update keeps them: features, labels, and how to find one again.

With these the head can be rebuilt with classes and photos added or taken away, without an image. A photo is found by its
name (its class's folder and the file's own name, never the way to it) or by the digest of its content, so that it can
still be found when it was renamed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import UpdateFileError

DIGEST = 32  # hexadecimal characters: nobody's photos collide by chance


@dataclass(frozen=True)
class Support:
    """N support images under the final ψ."""

    features: Tensor  # (N, D)
    labels: Tensor  # (N), places in the update's classes
    unseen: Tensor  # (N) bool: ψ was fine-tuned without them, so that they can judge it
    names: list[str]
    digests: list[str]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, kept: Tensor) -> Support:
        """Some of the images, by index; nothing of the others remains."""
        chosen = kept.tolist()
        return Support(
            self.features[kept],
            self.labels[kept],
            self.unseen[kept],
            [self.names[i] for i in chosen],
            [self.digests[i] for i in chosen],
        )

    def join(self, other: Support) -> Support:
        return Support(
            torch.cat([self.features, other.features]),
            torch.cat([self.labels, other.labels]),
            torch.cat([self.unseen, other.unseen]),
            self.names + other.names,
            self.digests + other.digests,
        )

    def relabel(self, places: Sequence[int]) -> Support:
        """Class c becomes ``places[c]``."""
        return replace(self, labels=torch.tensor(list(places))[self.labels])

    def counts(self, classes: int) -> list[int]:
        return torch.bincount(self.labels, minlength=classes).tolist()

    # The file

    def tensors(self) -> dict[str, Tensor]:
        return {
            "support/features": self.features,
            "support/labels": self.labels,
            "support/unseen": self.unseen.to(torch.uint8),
        }

    def words(self) -> dict[str, list[str]]:
        return {"names": self.names, "digests": self.digests}

    @classmethod
    def read(cls, tensors: dict[str, Tensor], words: Any) -> Support:
        """From what a file holds; files from before photos had names get numbers for them."""
        features, labels = tensors["features"], tensors["labels"]
        count = len(labels)
        unseen = tensors.get("unseen", torch.zeros(count, dtype=torch.uint8)).bool()
        words = words or {
            "names": [f"image {i}" for i in range(count)],
            "digests": [""] * count,
        }
        names, digests = words["names"], words["digests"]
        whole = all(isinstance(w, list) and len(w) == count for w in (names, digests))
        if not whole or not all(isinstance(w, str) for w in (*names, *digests)):
            raise UpdateFileError("the names of the support images do not fit.")
        return cls(features, labels, unseen, names, digests)

    def check(self, rows: int, features: int) -> None:
        """The tensors have the kinds and shapes that ``rows`` images need."""
        kinds = (self.features.dtype, self.labels.dtype)
        shapes = (tuple(self.features.shape), tuple(self.labels.shape), tuple(self.unseen.shape))
        if kinds != (torch.float32, torch.int64) or shapes != ((rows, features), (rows,), (rows,)):
            raise UpdateFileError("The kept support features do not fit the classes.", "Train it again.")


def name_of(source: Any, fallback: str) -> str:
    """What to call an image in a file that may be given away: class folder and file name, no more of the path."""
    return "/".join(Path(source).parts[-2:]) if isinstance(source, (str, Path)) else fallback


def digest_of(source: Any) -> str:
    """The digest of an image's content: of the file if it is one, else of its pixels."""
    found = hashlib.sha256()
    if isinstance(source, (str, Path, bytes)):
        found.update(source if isinstance(source, bytes) else Path(source).read_bytes())
    else:
        pixels = np.ascontiguousarray(np.asarray(source))
        found.update(f"{pixels.shape}{pixels.dtype}".encode())
        found.update(pixels.tobytes())
    return found.hexdigest()[:DIGEST]
