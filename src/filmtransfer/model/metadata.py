"""The JSON document of an update file: read into the fields of an ``Update``, every value checked."""

from __future__ import annotations

import math
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

from ..budgets import MAX_UPDATE_CLASSES, MAX_UPDATE_EDITS, MAX_UPDATE_LABEL
from ..data.pixels import INTERPOLATIONS, MAX_SIZE, PixelSpec
from ..errors import FitError, UpdateFileError
from ..heads import HEADS, make_head
from .predictor import log_prior
from .support import Label

Json: TypeAlias = Any  # what json.loads returns
JsonTable: TypeAlias = dict[str, Json]

FORMAT = 1
REQUIRED = {"format", "classes", "counts", "backbone", "pixels", "head", "settings", "seed", "versions"}


RESULTS: dict[str, Any] = {"steps": int, "share": int | float, "stopped": str}  # those that the package reads
LABELS = str | int | float | bool


def read_metadata(document: Json) -> JsonTable:
    """Return the fields of an ``Update`` that a document holds, and what it says of the support images."""
    if not isinstance(document, dict):
        raise UpdateFileError(
            "this is a safetensors file, but not an update of filmtransfer.",
            "Backbone weights go to --weights; updates are made by 'fit train'.",
        )
    if document.get("format") != FORMAT:
        raise UpdateFileError(
            f"it has format {document.get('format')!r}; this version reads format {FORMAT}.",
            "Use the version of filmtransfer that wrote it, or a newer one.",
        )
    if missing := REQUIRED - document.keys():
        raise UpdateFileError(f"the metadata lack {', '.join(sorted(missing))}.")
    for part in ("settings", "versions", "backbone", "pixels", "results"):
        if not isinstance(document.get(part, {}), dict):
            raise UpdateFileError(f"{part} is not a table.")
    if not all(isinstance(version, str) for version in document["versions"].values()):
        raise UpdateFileError("versions are not texts.")
    classes = _classes(document["classes"], document["counts"])
    _check_prior(document["settings"].get("prior", "uniform"), document["counts"])
    options = document.get("head_options", {})
    _check_head(document["head"], options)
    return {
        "classes": classes,
        "counts": document["counts"],
        "backbone": str(document["backbone"]["name"]),
        "backbone_digest": str(document["backbone"]["sha256"]),
        "pixels": _pixels(document["pixels"]),
        "head": document["head"],
        "head_options": options,
        "settings": document["settings"],
        "results": _results(document.get("results", {})),
        "seed": _seed(document["seed"]),
        "versions": document["versions"],
        "support": document.get("support"),
        "temperature": _temperature(document.get("temperature", 1.0)),
        "edits": _edits(document.get("edits", [])),
    }


def _classes(classes: Json, counts: Json) -> list[Label]:
    if not (isinstance(classes, list) and isinstance(counts, list) and len(classes) == len(counts) > 0):
        raise UpdateFileError("class names and counts do not fit.")
    if len(classes) > MAX_UPDATE_CLASSES:
        raise UpdateFileError(
            f"it has {len(classes):,} classes; at most {MAX_UPDATE_CLASSES:,} are possible."
        )
    if not all(isinstance(c, LABELS) for c in classes) or len({str(c) for c in classes}) < len(classes):
        raise UpdateFileError("class names have to be different texts or numbers.")
    if max(len(str(c)) for c in classes) > MAX_UPDATE_LABEL:
        raise UpdateFileError(f"a class name has more than {MAX_UPDATE_LABEL} characters.")
    if not all(type(n) is int and 0 < n < 2**31 for n in counts):
        raise UpdateFileError("counts have to be whole numbers above 0.")
    return classes


def _check_head(name: Json, options: Json) -> None:
    if name not in HEADS:
        raise UpdateFileError(f"the head {name!r} is not known here.")
    if not isinstance(options, dict):
        raise UpdateFileError("the options of the head are not a table.")
    try:
        make_head(name, **options)
    except FitError as error:
        raise UpdateFileError(f"the options of the head are not valid: {error.message}") from None


def _check_prior(prior: Json, counts: list[int]) -> None:
    try:
        if not isinstance(prior, str) and not all(type(p) in (int, float) for p in prior):
            raise TypeError
        log_prior(prior, counts)
    except (FitError, TypeError, ValueError, RuntimeError):
        raise UpdateFileError("the stored prior does not fit the classes.") from None


def _pixels(stored: JsonTable) -> PixelSpec:
    mean, std = (tuple(float(x) for x in stored[name]) for name in ("mean", "std"))
    rest = {k: v for k, v in stored.items() if k not in ("mean", "std")}
    spec = PixelSpec(mean=mean, std=std, **rest)  # type: ignore[arg-type]
    if type(spec.size) is not int or not 8 <= spec.size <= MAX_SIZE:
        raise UpdateFileError(f"an image size of {spec.size} is not possible.")
    if len(mean) != 3 or len(std) != 3 or not all(math.isfinite(x) for x in mean + std) or min(std) <= 0:
        raise UpdateFileError("the mean and standard deviation of the pixels are not possible.")
    if (
        spec.interpolation not in INTERPOLATIONS
        or spec.fit not in ("squash", "crop")
        or not 0 < spec.crop <= 1
    ):
        raise UpdateFileError("the way images are scaled is not known here.")
    return spec


def _results(stored: JsonTable) -> JsonTable:
    for name, kinds in RESULTS.items():
        if name in stored and (not isinstance(stored[name], kinds) or isinstance(stored[name], bool)):
            raise UpdateFileError(f"{name} among the results has the wrong type.")
    if not stored.get("steps", 0) >= 0 or not 0 <= stored.get("share", 1) <= 1:
        raise UpdateFileError("steps or share among the results are out of range.")
    return stored


def _seed(stored: Json) -> int:
    if type(stored) is not int:
        raise UpdateFileError("the seed has to be a whole number.")
    return stored


def _temperature(stored: Json) -> float:
    if not isinstance(stored, int | float) or not 0 < stored < math.inf:
        raise UpdateFileError("the temperature has to be a number above 0.")
    return float(stored)


def _edits(stored: Json) -> list[JsonTable]:
    if not isinstance(stored, list) or not all(map(_is_edit, stored)):
        raise UpdateFileError("the list of edits is not a list of edits.")
    if len(stored) > MAX_UPDATE_EDITS:
        raise UpdateFileError(f"it was edited more than {MAX_UPDATE_EDITS:,} times.")
    return stored


def _is_edit(stored: Json) -> bool:
    """Tell whether this is what training/edit.py writes about an edit."""
    if not isinstance(stored, dict) or not isinstance(stored.get("what"), str):
        return False
    names, photos = stored.get("classes", []), stored.get("photos", 0)
    return (
        isinstance(names, list)
        and all(isinstance(name, LABELS) for name in names)
        and all(isinstance(stored.get(key, ""), LABELS) for key in ("class", "to", "into"))
        and ("to" not in stored or "class" in stored)
        and type(photos) is int
    )


def library_versions() -> dict[str, str]:
    """Return the versions of the libraries on which the parameters of an update depend."""
    versions = {"python": platform.python_version()}
    for name in ("filmtransfer", "torch", "timm", "pillow"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:  # run from a source tree that is not installed
            versions[name] = "unknown"
    return versions
