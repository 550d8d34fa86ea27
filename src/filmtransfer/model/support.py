"""The support images of a task as an update stores them: features, labels, names and digests.

With these the head can be rebuilt with classes and photos added or removed, without an image. A photo is identified by
its name (its class folder and file name, never the full path) or by the digest of its content, so that it is still
recognised after it was renamed.

A file stores features as 16-bit integers with one scale for each photo. A rebuilt head then gives the same probabilities
to about 1e-5, for five of the six heads 3 to 15 times closer than float16 at the same size (docs/log.md); and since no
photo shares its scale with another, nothing of a forgotten photo remains in the rows of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..data.digest import digest_of as digest_of
from ..data.images import Label as Label
from ..errors import InputError, UpdateFileError
from ..heads import class_means

LEVELS = np.iinfo(np.int16).max
LARGEST = 1e18  # of a feature: above that squared distances overflow float32


def no_statistics(consequence: str) -> InputError:
    """Return the error for an update file without the support features."""
    return InputError(
        f"This file keeps no statistics, so {consequence}.",
        "Files written with --compact, by 'fit edit strip', by 'fit export --hub' or by a federation have none. "
        "Use the complete file, or train again without --compact.",
    )


@dataclass(frozen=True)
class Support:
    """N support images under the final ψ."""

    features: np.ndarray  # (N, D)
    labels: np.ndarray  # (N), indices into the update's classes
    held_out: np.ndarray  # (N) bool: ψ was fine-tuned without them, so that they can assess it
    names: list[str]
    digests: list[str]

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, kept: np.ndarray) -> Support:
        """Return some of the images, by index; nothing of the others remains."""
        chosen = kept.tolist()
        return Support(
            self.features[kept],
            self.labels[kept],
            self.held_out[kept],
            [self.names[i] for i in chosen],
            [self.digests[i] for i in chosen],
        )

    def join(self, other: Support) -> Support:
        """Return these images followed by others."""
        return Support(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.labels, other.labels]),
            np.concatenate([self.held_out, other.held_out]),
            self.names + other.names,
            self.digests + other.digests,
        )

    def relabel(self, labels: Sequence[int]) -> Support:
        """Return the images with class c renumbered to ``labels[c]``."""
        return replace(self, labels=np.array(list(labels))[self.labels])

    def counts(self, classes: int) -> list[int]:
        """Return the number of images of each class."""
        counted: list[int] = np.bincount(self.labels, minlength=classes).tolist()
        return counted

    def class_means(self) -> np.ndarray:
        """Compute μ_c (C, D) in float64."""
        means: np.ndarray = class_means(self.features.astype(np.float64), self.labels)
        return means

    # The file

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors that an update file stores."""
        levels, scales = quantise(self.features)
        return {
            "support/features": levels,
            "support/scales": scales,
            "support/labels": self.labels,
            "support/unseen": self.held_out.astype(np.uint8),
        }

    def metadata(self) -> dict[str, list[str]]:
        """Return the names and digests that an update file stores."""
        return {"names": self.names, "digests": self.digests}

    @classmethod
    def read(cls, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, list[str]] | None) -> Support:
        """Make it from what a file stores; the first files have float32 features and no names, so images are numbered."""
        features, labels = tensors["features"], tensors["labels"]
        if "scales" in tensors:
            features = dequantise(features, tensors["scales"])
        count = len(labels)
        held_out = tensors.get("unseen", np.zeros(count, np.uint8)).astype(bool)
        metadata = metadata or {"names": [f"image {i}" for i in range(count)], "digests": [""] * count}
        names, digests = metadata["names"], metadata["digests"]
        complete = all(isinstance(texts, list) and len(texts) == count for texts in (names, digests))
        if not complete or not all(isinstance(text, str) for text in (*names, *digests)):
            raise UpdateFileError("the names of the support images do not fit.")
        return cls(features, labels, held_out, names, digests)

    def check(self, rows: int) -> None:
        """Refuse tensors without the types and shapes that ``rows`` images need."""
        types = (self.features.dtype.name, self.labels.dtype.name, self.features.ndim)
        shapes = (self.features.shape[:1], self.labels.shape, self.held_out.shape)
        if types != ("float32", "int64", 2) or shapes != ((rows,), (rows,), (rows,)):
            raise UpdateFileError("The kept support features do not fit the classes.", "Train it again.")


def quantise(features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return features (N, D) as int16 (N, D) and the scale of each row (N)."""
    scales = (np.abs(features).max(1, initial=0) / LEVELS).astype(np.float32)
    divisors = np.where(scales > 0, scales, 1).astype(np.float64)
    levels = np.rint(features / divisors[:, None]).clip(-LEVELS, LEVELS)
    return levels.astype(np.int16), scales


def dequantise(levels: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Return the features (N, D) of a file in float32."""
    if (levels.dtype.name, scales.dtype.name) != ("int16", "float32") or scales.shape != levels.shape[:1]:
        raise UpdateFileError("the scales of the support features do not fit.", "Train it again.")
    if float(scales.max(initial=0)) > LARGEST / LEVELS or float(scales.min(initial=0)) < 0:
        raise UpdateFileError("the scales of the support features are out of range.", "Train it again.")
    features: np.ndarray = levels * scales[:, None]
    return features


def name_of(source: object, fallback: str) -> str:
    """Return what to call an image in a file that may be shared: class folder and file name, no more of the path."""
    return "/".join(Path(source).parts[-2:]) if isinstance(source, str | Path) else fallback


def identify(source: object) -> tuple[str, str | None]:
    """Return what identifies a photo: its name, and the digest of its content where that is available."""
    if isinstance(source, str | Path):
        return name_of(source, ""), digest_of(source) if Path(source).is_file() else None
    return "this image", digest_of(source)
