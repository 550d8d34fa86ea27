"""Images and labels in every form in which callers have them."""

from __future__ import annotations

import os
import re
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, TensorDataset

from filmtransfer.data.inputs import as_labels, check_files, image_sources, labelled_sources
from filmtransfer.data.pixels import decode
from filmtransfer.errors import InputError
from tests.conftest import picture

PICTURES = [picture(i, i) for i in range(5)]
ARRAYS = [np.asarray(image) for image in PICTURES]
TENSORS = torch.from_numpy(np.stack(ARRAYS).transpose(0, 3, 1, 2).astype(np.float32) / 255)
LABELS = ["disc", "bars", "plain", "disc", "bars"]


class Pairs(Dataset):
    """A data set as people write it: a length, items by index, and no end."""

    def __init__(self, images=PICTURES, labels=LABELS) -> None:
        self.images, self.labels, self.read = images, labels, 0

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int):
        self.read += 1
        return self.images[index % len(self.images)], self.labels[index % len(self.images)]


def png(image: Image.Image) -> bytes:
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def written(image: Image.Image) -> BytesIO:
    """Return a buffer as it is after saving: at its end."""
    buffer = BytesIO()
    image.save(buffer, "PNG")
    return buffer


class Response:
    """A body that can be read once, without seeking."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def read(self) -> bytes:
        return self.content


@pytest.fixture
def files(tmp_path) -> list[Path]:
    paths = [tmp_path / f"{i}.png" for i in range(len(PICTURES))]
    for path, image in zip(paths, PICTURES, strict=True):
        image.save(path)
    return paths


def pixels(images, **options) -> np.ndarray:
    return np.stack([np.asarray(decode(source)) for source in image_sources(images, **options)])


FORMS = {
    "PIL images": PICTURES,
    "a tuple": tuple(PICTURES),
    "arrays": ARRAYS,
    "a batch": np.stack(ARRAYS),
    "a batch of floats": np.stack(ARRAYS) / 255,
    "a batch of tensors": TENSORS,
    "tensors": list(TENSORS),
    "arrays in an object array": np.array([*ARRAYS, None], object)[:-1],
    "bytes": [png(image) for image in PICTURES],
    "bytearrays": [bytearray(png(image)) for image in PICTURES],
    "memoryviews": [memoryview(png(image)) for image in PICTURES],
    "buffers": [written(image) for image in PICTURES],
    "responses": [Response(png(image)) for image in PICTURES],
    "rows": [{"image": image, "id": 3} for image in PICTURES],
    "stored rows": [{"image": {"bytes": png(image), "path": None}} for image in PICTURES],
    "stored images": [{"bytes": png(image), "path": "somewhere"} for image in PICTURES],
    "pairs": list(zip(PICTURES, LABELS, strict=True)),
    "a data set": Pairs(),
    "a loader": DataLoader(TensorDataset(TENSORS, torch.arange(5)), batch_size=2),
    "a mixture": [PICTURES[0], ARRAYS[1], TENSORS[2], png(PICTURES[3]), written(PICTURES[4])],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_images(form):
    np.testing.assert_array_equal(pixels(FORMS[form]), np.stack(ARRAYS))


def test_paths_of_every_kind(files):
    entries = sorted(os.scandir(files[0].parent), key=lambda entry: entry.name)
    stored = [{"image": {"bytes": None, "path": str(file)}} for file in files]
    rows = [{"Path": file} for file in files]
    for form in (files, [str(f) for f in files], np.array([str(f) for f in files]), entries, stored, rows):
        np.testing.assert_array_equal(pixels(form), np.stack(ARRAYS))
    with files[0].open("rb") as file:
        np.testing.assert_array_equal(pixels([file])[0], ARRAYS[0])


def test_generators_are_read_one_image_at_a_time():
    data = Pairs()
    sources = image_sources(data[i] for i in range(5))
    next(sources)
    assert data.read == 1
    assert len(list(sources)) == 4


def test_grey_batches():
    grey = np.stack(ARRAYS)[..., 0]
    assert len(list(image_sources(grey))) == 5
    for ambiguous in (grey[:3], grey[:4]):
        assert len(list(image_sources(list(ambiguous)))) == len(ambiguous)
        assert len(list(image_sources(ambiguous, expected=len(ambiguous)))) == len(ambiguous)
        with pytest.raises(InputError, match="could be one image or"):
            list(image_sources(ambiguous))
    assert len(list(image_sources(torch.from_numpy(grey[:3]), expected=3))) == 3
    assert len(list(image_sources(torch.from_numpy(grey)[:, None]))) == 5
    (one,) = image_sources(torch.from_numpy(grey[:1]))  # one grey image in either reading
    np.testing.assert_array_equal(one, grey[0])


@pytest.mark.parametrize(
    ("images", "says", "hint"),
    [
        ("new.jpg", "as a list", "['new.jpg']"),
        (Path("new.jpg"), "as a list", "['new.jpg']"),
        (b"content", "as a list", "[image]"),
        (PICTURES[0], "as a list", "[image]"),
        (BytesIO(), "as a list", "[image]"),
        (ARRAYS[0], "(40, 40, 3) is one image", "[image]"),
        (ARRAYS[0][..., 0], "one grey image at most", "FeatureClassifier"),
        (TENSORS[0], "one image or 3 grey images", "list(images)"),
        (np.zeros(5), "no batch", "(N, H, W, 3)"),
        (np.zeros((1, 1, 8, 8, 3)), "no batch", "(N, H, W, 3)"),
        ({"image": [], "label": []}, "keys image, label", "data['image']"),
        (7, "of type int (7)", "An image is a path"),
        (None, "this is None", "An image is a path"),
        ([None], "Image 0 is None", "An image is a path"),
        ([[[1, 2], [3, 4]]], "Image 0 is of type list", "np.asarray"),
        ([PICTURES[0], 7], "Image 1 is of type int (7)", "An image is a path"),
        ([{"picture": 1}], "keys picture; none of them is image", "Rename a column"),
        ([StringIO("text")], "opened as text", "'rb'"),
        ([ARRAYS[0], TENSORS[1] - 3], "Image 1 is float32", "normalisation"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_conversion(images, says, hint):
    with pytest.raises(InputError, match=re.escape(says)) as error:
        list(image_sources(images))
    assert hint in error.value.hint


@pytest.mark.parametrize(
    "two",
    [["a.jpg", "b.PNG"], [Path("a.jpg"), Path("b.jpg")], PICTURES[:2], ARRAYS[:2], [png(PICTURES[0])] * 2],
    ids=["names", "paths", "pictures", "arrays", "contents"],
)
def test_two_images_are_not_an_image_and_its_label(two):
    for item in (two, tuple(two)):
        with pytest.raises(InputError, match="Image 0 is of type"):
            list(image_sources([item], check=False))


def test_labels_of_pairs_are_ignored_where_only_images_are_wanted():
    labels = ["cat", 3, 0.5, np.int64(3), torch.tensor(3), np.array(3)]
    sources = image_sources([(PICTURES[0], label) for label in labels])
    assert list(sources) == [PICTURES[0]] * len(labels)


def test_labels_of_their_own_are_not_mixed_with_pairs():
    with pytest.raises(InputError, match="Image 0 is of type tuple"):
        list(image_sources(Pairs(), pairs=False))


@pytest.mark.parametrize(
    "data",
    [
        Pairs(),
        list(zip(PICTURES, LABELS, strict=True)),
        [list(pair) for pair in zip(PICTURES, LABELS, strict=True)],
        [{"img": image, "Label": label} for image, label in zip(PICTURES, LABELS, strict=True)],
        [{"image": {"bytes": png(i), "path": ""}, "class": c} for i, c in zip(PICTURES, LABELS, strict=True)],
        zip(TENSORS, LABELS, strict=True),
    ],
    ids=["data set", "tuples", "lists", "rows", "stored rows", "generator"],
)
def test_pairs(data):
    sources, labels = zip(*labelled_sources(data), strict=True)
    assert list(labels) == LABELS
    np.testing.assert_array_equal(np.stack([np.asarray(decode(s)) for s in sources]), np.stack(ARRAYS))


def test_batches_of_a_loader_are_divided():
    loader = DataLoader(TensorDataset(TENSORS, torch.arange(5)), batch_size=2)
    sources, labels = zip(*labelled_sources(loader), strict=True)
    assert labels == (0, 1, 2, 3, 4)
    assert all(type(label) is int for label in labels)
    np.testing.assert_array_equal(np.stack(sources), np.stack(ARRAYS))


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        ("photos", "no labels for photos", "fit_folder('photos')"),
        (PICTURES, "Item 0 is of type Image", "images and their labels"),
        (np.stack(ARRAYS), "Item 0 is an array, uint8 of shape (40, 40, 3)", "images and their labels"),
        (
            [{"image": PICTURES[0]}],
            "Item 0 has the keys image; none of them is label",
            "images and their labels",
        ),
        ([(PICTURES[0], None)], "label of image 0 is None", "text or a number"),
        ([(PICTURES[0], [0, 1])], "label of image 0 has 2 parts", "argmax(1)"),
        ([(PICTURES[0], torch.tensor([0, 1]))], "label of image 0 has 2 parts", "argmax(1)"),
        ([(np.stack(ARRAYS), [1, 2])], "5 images but 2 labels", "one label for each"),
        (5, "this is of type int (5)", "An image is"),
    ],
)
def test_data_sets_without_labels_are_refused(data, says, hint):
    with pytest.raises(InputError, match=re.escape(says)) as error:
        list(labelled_sources(data))
    assert hint in error.value.hint


@pytest.mark.parametrize(
    "labels",
    [[3, 1, 2], (3, 1, 2), np.array([3, 1, 2]), torch.tensor([3, 1, 2]), iter([3, 1, 2])],
    ids=lambda labels: type(labels).__name__,
)
def test_labels(labels):
    plain = as_labels(labels, PICTURES[:3])
    assert plain == [3, 1, 2]
    assert all(type(label) is int for label in plain)


@pytest.mark.parametrize(
    ("labels", "says", "hint"),
    [
        (np.eye(5), "shape (5, 5)", "labels.argmax(1)"),
        (np.eye(5).tolist(), "has 5 parts", "labels.argmax(1)"),
        (torch.zeros(5, 1), "shape (5, 1)", "labels.ravel()"),
        (["a", "b"], "5 images but 2 labels", "one label for each"),
        ("disc", "The labels are of type str", "a list"),
        (7, "The labels are of type int", "a list"),
        ({"a": 1}, "The labels are of type dict", "a list"),
        ([b"a"] * 5, "label of image 0 is of type bytes", "text or a number"),
        ([0, 1, None, 0, 1], "label of image 2 is None", "text or a number"),
    ],
)
def test_other_labels_are_refused_with_the_conversion(labels, says, hint):
    with pytest.raises(InputError, match=re.escape(says)) as error:
        as_labels(labels, PICTURES)
    assert hint in error.value.hint


def test_a_mistyped_path_is_an_error(files, tmp_path):
    wrong = tmp_path / "nope.png"
    images = (f for f in [*files, wrong])
    assert len([next(image_sources(images)) for _ in files]) == 5
    for form in ([*files, wrong], [str(wrong)], [{"image": str(wrong)}]):
        with pytest.raises(InputError, match=re.escape(f"There is no file {wrong}.")) as error:
            next(image_sources(form))  # before any image is read
        assert "spelling" in error.value.hint
    with pytest.raises(InputError, match="There is no file"):
        next(image_sources(images))
    several = [*files, *(tmp_path / f"nope{i}.png" for i in range(5))]
    with pytest.raises(InputError, match=r"5 of 10 files do not exist: \S+nope0.png, \S+, \S+ and 2 more\."):
        check_files(several)
    assert len(list(image_sources([wrong], check=False))) == 1


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("https://example.org/cat.jpg", "is an address"),
        (".", "is a folder"),
        ("x" * 5000, "There is no file xxx"),
        ("nul\0l.png", "There is no file"),
    ],
)
def test_other_texts_are_no_images(path, says):
    with pytest.raises(InputError, match=re.escape(says)) as error:
        check_files([path])
    assert len(error.value.message) < 200
