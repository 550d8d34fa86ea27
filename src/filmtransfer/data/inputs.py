"""What a caller passes as images and labels: lists, batches, data sets of pairs, rows of a table, generators.

Every image becomes an ``ImageSource``: a path, the bytes of a file, a PIL image or a uint8 array. Files are not decoded
here. A data set or generator is read once, one image after the other. Paths that do not exist are errors: a mistyped
name is not an image that cannot be read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from ..errors import InputError
from ..formatting import capitalize, count
from .array_images import ArrayConverter, UnsupportedImageError, as_numpy, describe_array, is_array
from .pixels import SUFFIXES, ImageSource

Label = str | int | float | bool  # the name of a class, as a JSON document can hold it
Images: TypeAlias = Any  # several images in one of the forms above; no type names all of them
Labels: TypeAlias = Any  # a list, an array or a tensor with one label for each image

IMAGE_KEYS = ("image", "img", "photo", "pixel_values", "path", "file", "filename")
LABEL_KEYS = ("label", "labels", "class", "category", "target", "fine_label")
CONTENT_KEYS = frozenset({"bytes", "path"})  # an image as Hugging Face's datasets store it
MOST_NAMED = 3  # files in an error message

ACCEPTED = "An image is a path, the bytes of a file, a PIL image or an array."


def image_sources(
    images: Images, *, check: bool = True, pairs: bool = True, expected: int | None = None
) -> Iterator[ImageSource]:
    """Yield the images of a list, a batch, a data set or a generator as image sources.

    ``check`` is whether every path must be a file; ``pairs`` whether an item may be a pair of which the first part is the
    image; ``expected`` the number of images, if it is known.
    """
    check_collection(images, expected)
    if check and is_held(images) and not is_array(images):
        check_files([image for image in images if isinstance(image, str | os.PathLike)])
    converter = ArrayConverter()
    if is_array(images) and not _holds_objects(images):
        yield from converter.batch(images)
        return
    for i, image in enumerate(chain.from_iterable(_split_images(item, pairs) for item in iterate(images))):
        yield _as_source(image, f"image {i}", converter, check=check)


def labelled_sources(pairs: Images) -> Iterator[tuple[ImageSource, Label]]:
    """Yield image sources and labels of a data set: pairs, rows with an image and a label, or batches of pairs."""
    if isinstance(pairs, str | os.PathLike):
        raise InputError(
            f"There are no labels for {pairs}.",
            f"A folder is read by fit_folder({str(pairs)!r}) and by 'fit evaluate'; else give images and labels.",
        )
    check_collection(pairs)
    converter = ArrayConverter()
    items = chain.from_iterable(_split_pair(item, i) for i, item in enumerate(iterate(pairs)))
    for i, (image, label) in enumerate(items):
        yield _as_source(image, f"image {i}", converter, check=True), as_label(label, f"image {i}")


def as_labels(labels: Labels, images: Images) -> list[Label]:
    """Return the labels of some images as plain text or numbers; raise an error if it is clear that they are too few."""
    check_collection(images, len(labels) if hasattr(labels, "__len__") else None)
    if isinstance(labels, str | bytes | Mapping) or not hasattr(labels, "__iter__"):
        raise InputError(f"The labels are {_describe(labels)}.", "Give a list with one label for each image.")
    if is_array(labels) and len(labels.shape) != 1:
        shape = tuple(labels.shape)
        one_hot = len(shape) == 2 and shape[1] > 1
        raise InputError(
            f"The labels are an array of shape {shape}, not one label for each image.",
            "From one-hot labels: labels.argmax(1)." if one_hot else "Use labels.ravel().",
        )
    named = [as_label(label, f"image {i}") for i, label in enumerate(labels)]
    if is_held(images):
        check_numbers(len(images), len(named))
    return named


def check_numbers(images: int, labels: int) -> None:
    """Raise an error if there are more images than labels, or fewer."""
    if images != labels:
        message = f"{count(images, 'image')} but {count(labels, 'label')}."
        raise InputError(capitalize(message), "Give one label for each image.")


def as_label(label: Any, name: str) -> Label:
    """Return a label as plain text or a number."""
    if is_array(label) and as_numpy(label).size == 1:
        label = as_numpy(label).reshape(()).item()
    if isinstance(label, str | int | float):
        return label
    if is_array(label) or isinstance(label, list | tuple):
        hint = "A label is text or a number. From one-hot labels: labels.argmax(1)."
        raise InputError(f"The label of {name} has {count(len(label), 'part')}.", hint)
    raise InputError(f"The label of {name} is {_describe(label)}.", "A label is text or a number.")


def is_held(images: object) -> bool:
    """Tell whether the caller holds all images, so that they can be read more than once."""
    return isinstance(images, list | tuple) or is_array(images)


def iterate(data: Any) -> Iterator[Any]:
    """Yield the items of anything that has some; a data set with a length need not be iterable."""
    if not hasattr(data, "__iter__"):
        return (data[i] for i in range(len(data)))
    return iter(data)


def check_files(paths: Sequence[str | os.PathLike[str]], hint: str = "") -> None:
    """Raise an error that counts and names the paths that are not files."""
    missing = [path for path in paths if _stat(path) is None]
    if missing:
        raise _missing(missing, len(paths), hint)
    if folder := next((path for path in paths if os.path.isdir(path)), None):
        raise InputError(f"{os.fspath(folder)} is a folder, not an image.", "List its images one by one.")


def _missing(missing: Sequence[str | os.PathLike[str]], among: int, hint: str) -> InputError:
    names = [os.fspath(path) for path in missing]
    if names[0].startswith(("http://", "https://")):
        return InputError(
            f"{names[0]} is an address, not a file.", "Download it, and give the path or the bytes."
        )
    shown = ", ".join(name if len(name) < 200 else f"{name[:60]}…" for name in names[:MOST_NAMED])
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    several = f"{len(names)} of {among} files do not exist: {shown}{more}."
    return InputError(
        several if len(names) > 1 else f"There is no file {shown}.",
        hint or f"Check the spelling; relative paths begin at {os.getcwd()}.",
    )


def _stat(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.stat(path)
    except PermissionError:  # reading it will say so
        return os.stat(os.curdir)
    except (OSError, ValueError):  # there is none, or the name is impossible
        return None


def check_collection(images: Images, expected: int | None = None) -> None:
    """Raise an error with the conversion for what is not several images, but one of them, or something else."""
    if isinstance(images, str | os.PathLike):
        path = os.fspath(images)
        one = (
            "List the images in it; fit_folder reads a folder per class."
            if os.path.isdir(path)
            else f"For one image: [{path!r}]."
        )
        raise InputError("Images are given as a list.", one)
    if isinstance(images, bytes | bytearray | memoryview | Image.Image) or _is_file(images):
        raise InputError("Images are given as a list.", "For one image: [image].")
    if isinstance(images, Mapping):
        keys = ", ".join(map(str, list(images)[:8]))
        raise InputError(
            f"Images are given as a list, not as a mapping with the keys {keys}.",
            "Give one of its values, or its columns: (data['image'], data['label']).",
        )
    if is_array(images):
        _check_batch(images, expected)
    elif not hasattr(images, "__iter__") and not (
        hasattr(images, "__getitem__") and hasattr(images, "__len__")
    ):
        raise InputError(f"Images are given as a list; this is {_describe(images)}.", ACCEPTED)


def _check_batch(array: Any, expected: int | None) -> None:
    """Raise an error for an array that is one image, or no images at all."""
    shape, one = tuple(array.shape), "For one image: [image]."
    if _holds_objects(array) and len(shape) == 1:
        return
    if len(shape) not in (2, 3, 4):
        raise InputError(
            f"An array of shape {shape} is no batch of images.", "A batch has the shape (N, H, W, 3)."
        )
    if len(shape) == 2:
        hint = "For features (N, D) there is FeatureClassifier."
        raise InputError(f"An array of shape {shape} is one grey image at most.", f"{one} {hint}")
    if len(shape) == 3 and shape[2] in (3, 4):
        raise InputError(f"An array of shape {shape} is one image; images are given as a list.", one)
    if len(shape) == 3 and shape[0] in (3, 4) and expected != shape[0]:
        raise InputError(
            f"An array of shape {shape} could be one image or {shape[0]} grey images.",
            f"{one} For grey images: list(images).",
        )


def _holds_objects(array: Any) -> bool:
    """Tell whether an array is a list in truth: of paths, or of images of different shapes."""
    return getattr(array.dtype, "kind", "number") in "OUST"


def _split_images(item: Any, pairs: bool) -> Iterable[Any]:
    """Return the image of an item, or those of a batch that a loader has put together."""
    image = item[0] if pairs and _is_pair(item) else item
    return image if is_array(image) and len(image.shape) == 4 else [image]


def _is_pair(item: Any) -> bool:
    """Tell whether an item is an image and its label, or a batch of images and their labels: never two images."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        return False
    image, label = item
    if is_array(image) and len(image.shape) == 4:
        return hasattr(label, "__len__") and len(label) == len(image)
    if isinstance(label, str):
        return Path(label).suffix.lower() not in SUFFIXES
    single = isinstance(label, int | float | np.generic) or (is_array(label) and len(label.shape) == 0)
    return single and not isinstance(image, int | float | list)


def _split_pair(item: Any, index: int) -> Iterable[tuple[Any, Any]]:
    """Return the image and the label of an item, or those of a batch that a loader has put together."""
    if isinstance(item, Mapping):
        image, label = (_value(item, keys, f"item {index}") for keys in (IMAGE_KEYS, LABEL_KEYS))
    elif isinstance(item, tuple | list) and len(item) == 2:
        image, label = item
    else:
        raise InputError(
            f"Item {index} is {_describe(item)}, not an image with its label.",
            "Give images and their labels, or pairs (image, label).",
        )
    if is_array(image) and len(image.shape) == 4:
        return zip(image, as_labels(label, image), strict=True)
    return [(image, label)]


def _value(row: Mapping[Any, Any], keys: Sequence[str], name: str) -> Any:
    """Return the value of a row under the first of the keys that it has, in any case."""
    known = {str(key).strip().lower(): key for key in row}
    match = next((known[key] for key in keys if key in known), None)
    if match is None:
        raise InputError(
            f"{capitalize(name)} has the keys {', '.join(map(str, row))}; none of them is {', '.join(keys)}.",
            "Rename a column, or give images and their labels.",
        )
    return row[match]


def _as_source(image: Any, name: str, converter: ArrayConverter, *, check: bool) -> ImageSource:
    """Return one image as a path, the bytes of a file, a PIL image or a uint8 array."""
    if isinstance(image, Mapping):
        image = _from_row(image, name)
    if isinstance(image, str | os.PathLike):
        if check:
            check_files([image])
        return image
    if isinstance(image, bytes | Image.Image):
        return image
    if isinstance(image, bytearray | memoryview):
        return bytes(image)
    if is_array(image):
        return converter.image(image, name)
    if _is_file(image):
        return _content(image, name)
    raise UnsupportedImageError(
        f"{capitalize(name)} is {_describe(image)}.", f"{ACCEPTED} From numbers: np.asarray(image)."
    )


def _from_row(row: Mapping[Any, Any], name: str) -> Any:
    """Return the image of a row of a table, which may again be the content or the path of a file."""
    if row.keys() >= CONTENT_KEYS:
        return row["bytes"] if row["bytes"] is not None else row["path"]
    image = _value(row, IMAGE_KEYS, name)
    return _from_row(image, name) if isinstance(image, Mapping) else image


def _is_file(value: Any) -> bool:
    return callable(getattr(value, "read", None))


def _content(file: Any, name: str) -> bytes:
    """Return the content of an open file, from its beginning as Pillow reads it."""
    try:
        file.seek(0)
    except (AttributeError, OSError):  # a pipe or a response
        pass
    content = file.read()
    if not isinstance(content, bytes):
        raise UnsupportedImageError(
            f"{capitalize(name)} is a file opened as text.", "Open it with open(path, 'rb')."
        )
    return content


def _describe(value: object) -> str:
    """Return what a value is, for messages."""
    if value is None:
        return "None"
    if is_array(value):
        return f"an array, {describe_array(value)}"
    kind, text = type(value).__name__, repr(value)
    return f"of type {kind}" + (f" ({text})" if len(text) <= 40 and "\n" not in text else "")
