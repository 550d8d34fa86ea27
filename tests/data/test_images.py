"""Folders, CSVs and arrays of labelled images."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from filmtransfer.data import LabelledImages, PixelSpec, check_headers, find_images, list_images, load
from filmtransfer.data.digest import digest_of
from filmtransfer.data.sample import enlarge_drawing, sample_drawings
from filmtransfer.errors import InputError
from tests.conftest import picture
from tests.data.test_pixels import broken

SPEC = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def test_a_folder_with_one_subfolder_per_class(photo_folder):
    images = LabelledImages.from_folder(photo_folder(classes=("zwei Worte", "日本", "émile"), shots=3))
    assert images.classes == ["zwei Worte", "émile", "日本"]
    loaded = load(images, SPEC)
    assert loaded.pixels.shape == (9, 3, 32, 32)
    assert loaded.counts() == [3, 3, 3]
    assert loaded.skipped == []


def test_headers_show_what_reading_would_end_in(photo_folder):
    root = photo_folder()
    (root / "disc" / "0.png").write_bytes(b"text")
    check_headers(LabelledImages.from_folder(root))
    for file in (root / "disc").iterdir():
        file.write_bytes(b"text")
    for reading in (check_headers, lambda images: load(images, SPEC)):
        with pytest.raises(InputError, match="None of the images of disc can be read"):
            reading(LabelledImages.from_folder(root))
    one = photo_folder("one", classes=("only",))
    for reading in (check_headers, lambda images: load(images, SPEC)):
        with pytest.raises(InputError, match="only one class, only"):
            reading(LabelledImages.from_folder(one))


def test_a_csv_of_paths_and_labels(photo_folder, tmp_path):
    root = photo_folder()
    table = tmp_path / "list.csv"
    rows = [f"{p.relative_to(tmp_path)},{p.parent.name}" for p in sorted(root.rglob("*.png"))]
    table.write_text("file,label\n" + "\n".join(rows) + "\n,\n", encoding="utf-8-sig")
    images = LabelledImages.from_path(table)
    assert images.classes == ["bars", "disc", "plain"]
    assert len(images) == 12
    assert "One line of" in images.warnings[0]
    table.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="path and a label column"):
        LabelledImages.from_csv(table)
    with pytest.raises(InputError, match=r"There is no file .*none\.csv"):
        LabelledImages.from_csv(tmp_path / "none.csv")
    table.write_text("path,label\n,\n")
    with pytest.raises(InputError, match="lists no images"):
        LabelledImages.from_csv(table)


def test_a_csv_costs_no_more_than_its_two_columns(photo_folder, tmp_path, monkeypatch):
    image = next(photo_folder().rglob("*.png")).relative_to(tmp_path)
    table = tmp_path / "wide.csv"
    table.write_text("path,label" + ",x" * 5000 + "\n" + f"{image},a\n{image},b\n" * 1000)
    tracemalloc.start()
    try:
        images = LabelledImages.from_csv(table)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(images) == 2000
    assert peak < 10_000_000, "a table of all columns would take 80 MB"
    monkeypatch.setattr("filmtransfer.data.images.MAX_LIST_ROWS", 1999)
    with pytest.raises(InputError, match="more than 1,999 images"):
        LabelledImages.from_csv(table)
    monkeypatch.setattr("filmtransfer.data.images.MAX_LIST_BYTES", 1000)
    with pytest.raises(InputError, match="is larger than"):
        LabelledImages.from_csv(table)


def test_broken_images_are_skipped_and_listed(photo_folder, tmp_path):
    root = photo_folder()
    other = tmp_path / "other"
    other.mkdir()
    files = [p for p in broken(other).values() if p.exists()]
    for file in files:
        file.rename(root / "disc" / file.name)
    loaded = load(LabelledImages.from_folder(root), SPEC)
    assert len(loaded.labels) == 12
    assert {Path(s.name).name for s in loaded.skipped} == {f.name for f in files}
    assert all(s.reason for s in loaded.skipped)
    with pytest.raises(InputError, match="6 images cannot be used"):
        load(LabelledImages.from_folder(root), SPEC, strict=True)


def test_a_class_with_only_broken_images_is_an_error(photo_folder):
    root = photo_folder()
    for file in (root / "bars").iterdir():
        file.write_bytes(b"text")
    with pytest.raises(InputError, match="None of the images of bars"):
        load(LabelledImages.from_folder(root), SPEC)


def test_missing_and_empty_folders_and_a_single_class(tmp_path, photo_folder):
    with pytest.raises(InputError, match="There is no folder"):
        LabelledImages.from_folder(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="No images in subfolders"):
        LabelledImages.from_folder(tmp_path / "empty")
    with pytest.raises(InputError, match="only one class"):
        load(LabelledImages.from_folder(photo_folder("lonely", classes=("disc",))), SPEC)


def test_unlabelled_images_and_empty_folders_are_reported_hidden_files_ignored(photo_folder):
    root = photo_folder()
    picture(0, 1).save(root / "loose.png")
    (root / "nothing").mkdir()
    (root / "disc" / ".DS_Store").write_bytes(b"x")
    (root / "disc" / "notes.txt").write_text("x")
    (root / "disc" / "deeper").mkdir()
    picture(0, 77).save(root / "disc" / "deeper" / "more.png")
    images = LabelledImages.from_folder(root)
    assert len(images) == 13
    assert any("One image directly in" in w for w in images.warnings)
    assert any("nothing" in w for w in images.warnings)


def test_symbolic_link_loops_end(photo_folder):
    root = photo_folder()
    os.symlink(root / "disc", root / "disc" / "again")
    os.symlink(root, root / "bars" / "up")
    os.symlink(root / "plain", root / "bars" / "aside")
    assert len(find_images(root / "disc")) == 4
    assert len(find_images(root / "bars")) == 8, "a link aside is followed, a link upwards is not"
    assert len(LabelledImages.from_folder(root)) == 16


def test_the_same_image_in_two_classes_is_reported(photo_folder):
    root = photo_folder()
    (root / "bars" / "copy.png").write_bytes((root / "disc" / "0.png").read_bytes())
    loaded = load(LabelledImages.from_folder(root), SPEC)
    assert any("two classes" in w and "copy.png" in w for w in loaded.warnings)


def test_class_names_that_differ_only_in_spelling_are_reported(photo_folder):
    images = LabelledImages.from_folder(
        photo_folder(classes=("Cat", "cat", "sea lion", "sea  lion", "sealion"))
    )
    assert [w.partition(" differ")[0] for w in images.warnings] == [
        "Classes Cat and cat",
        "Classes sea  lion and sea lion",
    ]


def test_decoding_threads_do_not_change_the_warning_filters(photo_folder):
    import warnings

    images = LabelledImages.from_folder(photo_folder(shots=20))
    before = list(warnings.filters)
    load(images, SPEC)
    assert warnings.filters == before


def test_images_in_memory_with_labels_of_any_type():
    arrays = [np.asarray(picture(i, i)) for i in range(3)]
    mixed = [arrays[0], Image.fromarray(arrays[1]), arrays[2][:, :, 0]]
    loaded = load(LabelledImages.from_memory(mixed, np.array([30, 10, 30])), SPEC)
    assert loaded.classes == [10, 30]
    assert loaded.labels.tolist() == [1, 0, 1]
    with pytest.raises(InputError, match="3 images but 2 labels"):
        LabelledImages.from_memory(mixed, [0, 1])
    with pytest.raises(InputError, match="different types"):
        LabelledImages.from_memory(mixed, ["a", 1, "a"])
    with pytest.raises(InputError, match="No images"):
        LabelledImages.from_memory([], [])


class Enlarged:
    """A data set of large images that exist only while they are read."""

    def __init__(self, side: int) -> None:
        self.side = side

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int):
        return picture(index, index, self.side), index % 3


def test_images_of_a_data_set_are_kept_at_the_size_that_is_needed():
    images = LabelledImages.from_memory(Enlarged(400), near=32)
    assert images.labels == [0, 1, 2] * 2
    assert {source.size for source in images.sources} == {(67, 67)}, "400 // 6, at least twice 32"
    originals = [digest_of(Enlarged(400)[i][0]) for i in range(6)]
    assert [images.digests[i] for i in range(6)] == originals
    loaded, direct = (
        load(labelled, SPEC)
        for labelled in (images, LabelledImages.from_memory([Enlarged(400)[i] for i in range(6)], near=32))
    )
    assert loaded.digests == images.digests
    assert direct.digests == {}, "what the caller holds in memory is used as it is"
    assert direct.sources[0].size == (400, 400)
    assert np.abs(loaded.pixels.astype(int) - direct.pixels).mean() < 2
    small = LabelledImages.from_memory(Enlarged(100), near=32)
    assert (small.sources[0].size, small.digests) == ((100, 100), {})


def test_digests_belong_to_the_images_that_could_be_read():
    images = LabelledImages.from_memory(Enlarged(400), near=32)
    images.sources[0] = b"no image"
    assert load(images, SPEC).digests == {i - 1: images.digests[i] for i in range(1, 6)}


def test_generators_of_images_and_their_mistakes():
    arrays = [np.asarray(picture(i, i)) for i in range(3)]
    images = LabelledImages.from_memory((array for array in arrays), iter("aba"))
    assert (len(images), images.classes) == (3, ["a", "b"])
    for number in (2, 4):
        with pytest.raises(InputError, match=f"3 images but {number} labels"):
            LabelledImages.from_memory((array for array in arrays), ["a"] * number)
    used = zip(arrays, "aba", strict=True)
    list(used)
    with pytest.raises(InputError, match="No images were given") as error:
        LabelledImages.from_memory(used)
    assert "once" in error.value.hint


def test_rows_of_a_csv_without_a_file_are_an_error(photo_folder, tmp_path):
    file = next(photo_folder().rglob("*.png"))
    table = tmp_path / "list.csv"
    table.write_text(f"path,label\n{file},a\nphotos/nope.png,b\nnowhere/1.png,b\n")
    with pytest.raises(
        InputError, match=r"2 of 3 files do not exist: \S+photos/nope.png, \S+1.png\."
    ) as error:
        LabelledImages.from_csv(table)
    assert str(tmp_path) in error.value.hint


def test_listed_files_must_exist_folders_may_hold_anything(photo_folder):
    root = photo_folder()
    assert len(list_images([root, root / "disc" / "0.png"])) == 13
    with pytest.raises(InputError, match=r"There is no file \S+nope.png"):
        list_images([root, root / "disc" / "nope.png"])
    with pytest.raises(InputError, match="no images"):
        list_images([])


def test_the_sample_drawings_are_complete_and_centred():
    train, test = sample_drawings(10, 0)
    for drawing in (*train.sources, *test.sources):
        pixels = np.asarray(drawing)
        for axis in (0, 1):
            (ink,) = np.nonzero((pixels < 255).any(axis))
            before, after = ink[0], pixels.shape[1 - axis] - 1 - ink[-1]
            assert after - before in (0, 1)
            assert before >= 4


def test_an_enlarged_drawing_is_the_same_drawing():
    drawing = np.asarray(sample_drawings(1, 0)[0].sources[0])
    large = enlarge_drawing(drawing, 8 * len(drawing))
    assert (large.dtype, large.shape) == (np.uint8, (288, 288))
    assert large[:20].min() == large[:, -20:].min() == 255  # no ink in the margin
    cells = large.reshape(36, 8, 36, 8).mean((1, 3))
    assert np.corrcoef(cells.flatten(), drawing.flatten())[0, 1] > 0.9


def test_the_sample_drawings():
    train, test = sample_drawings(10, 0)
    assert len(train.classes) >= 10
    assert len(train) == 10 * len(train.classes)
    assert len(test) >= 50 * len(train.classes)
    assert not {s.tobytes() for s in train.sources} & {s.tobytes() for s in test.sources}
    packaged = Path(__file__).parents[2] / "src/filmtransfer/data/sample.npz"
    assert packaged.stat().st_size < 2_000_000
    again, _ = sample_drawings(10, 0)
    other, _ = sample_drawings(10, 1)
    assert all(np.array_equal(a, b) for a, b in zip(train.sources, again.sources, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(train.sources, other.sources, strict=True))
