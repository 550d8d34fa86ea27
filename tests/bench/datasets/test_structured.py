"""The structured datasets of VTAB, from tiny files in the publishers' own formats; labels worked out by hand."""

from __future__ import annotations

import gzip
import io
import json
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from filmtransfer.bench.datasets import DATASETS, GROUPS, clevr, dsprites, kitti, smallnorb
from filmtransfer.bench.datasets.dataset import RawDataset
from filmtransfer.errors import InputError, UpdateFileError
from tests.bench.datasets.test_tfrecord import example, record

ENTRIES = {name: DATASETS[name] for name in GROUPS["structured"]}


# CLEVR


def scene(name: str, distances: list[float]) -> dict[str, object]:
    """As CLEVR describes a scene; the third pixel coordinate is the distance from the camera."""
    objects = [
        {"shape": "cube", "size": "small", "pixel_coords": [10, 20, z], "3d_coords": [0.1, 0.2, 0.3]}
        for z in distances
    ]
    return {
        "split": "train",
        "image_index": 0,
        "image_filename": name,
        "objects": objects,
        "relationships": {"left": [[1], []]},
        "directions": {"left": [0.1, 0.2, 0.3]},
    }


def make_clevr(root: Path, **splits: list[list[float]]) -> Path:
    home = root / "CLEVR_v1.0"
    (home / "scenes").mkdir(parents=True)
    for split, scenes in splits.items():
        names = [f"CLEVR_{split}_{i:06}.png" for i in range(len(scenes))]
        (home / "images" / split).mkdir(parents=True)
        for name in names:
            Image.new("RGB", (48, 32)).save(home / "images" / split / name)
        text = json.dumps({"info": {"split": split}, "scenes": list(map(scene, names, scenes))})
        (home / "scenes" / f"CLEVR_{split}_scenes.json").write_text(text)
    return home


def test_clevr_counts_and_nearest_distances(tmp_path: Path):
    train = [[9.0, 8.0, 12.0], [8.01, 11.0, 12.0], [13.0] * 9 + [10.01]]
    val = [[8.5, 9.0, 9.5, 20.0], [8.51, 9.0, 9.5, 20.0], [9.51, 10.0, 9.7, 14.0, 14.0]]
    make_clevr(tmp_path, train=train, val=val)
    counts, distances = (ENTRIES[name].read(tmp_path) for name in ("clevr_count", "clevr_distance"))
    assert counts.train.labels.tolist() == [0, 0, 7]  # 3, 3 and 10 objects
    assert counts.test.labels.tolist() == [1, 1, 2]
    assert distances.train.labels.tolist() == [0, 1, 5]  # nearest 8.0, 8.01 and 10.01
    assert distances.test.labels.tolist() == [1, 2, 4]  # 8.5, 8.51 and 9.51
    assert counts.train.labels.dtype == np.int64
    assert counts.train.keys[2] == "CLEVR_train_000002.png"
    assert Path(counts.test.sources[0]).name == "CLEVR_val_000000.png"
    assert (len(counts.classes), len(distances.classes)) == (8, 6)
    assert counts.val is None


@pytest.mark.parametrize(
    ("nearest", "label"),
    [(0.1, 0), (8.0, 0), (8.0000001, 0), (8.1, 1), (8.5, 1), (9.0, 2), (9.5, 3), (10.0, 4), (99.0, 5)],
)
def test_clevr_distance_at_the_edges(nearest: float, label: int):
    """An edge belongs to the bin below it; 8.0000001 is 8 in float32, in which TFDS stores it."""
    assert clevr.distance_label([50.0, nearest]) == label


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"scenes": [', "Expecting value"),
        ('{"info": {}}', "not a list of scenes"),
        ('{"scenes": [{"info": {}}]}', "not a list of scenes"),
        ('{"scenes": [{"image_filename": "a.png", "objects": [{"size": "small"}]}]}', "no pixel_coords"),
        ('{"scenes": [{"image_filename": "a.png", "objects": [{"pixel_coords": [1]}]}]}', "out of range"),
        ('{"scenes": []}', "lists no images"),
    ],
)
def test_clevr_damaged_scenes(tmp_path: Path, text: str, reason: str):
    home = make_clevr(tmp_path, train=[[8.0] * 3], val=[[8.0] * 3])
    (home / "scenes" / "CLEVR_val_scenes.json").write_text(text)
    with pytest.raises(UpdateFileError, match=rf"CLEVR_val_scenes\.json is damaged: .*{reason}"):
        ENTRIES["clevr_count"].read(tmp_path)


def test_clevr_impossible_counts_and_missing_images(tmp_path: Path):
    home = make_clevr(tmp_path, train=[[8.0] * 2], val=[[8.0] * 3])
    with pytest.raises(UpdateFileError, match=r"train_scenes\.json is damaged: a label is -1"):
        ENTRIES["clevr_count"].read(tmp_path)
    (home / "images" / "train" / "CLEVR_train_000000.png").unlink()
    with pytest.raises(InputError, match=r"1 of the 1 images .*images/train/CLEVR_train_000000\.png"):
        ENTRIES["clevr_count"].read(tmp_path)


# dSprites


def make_dsprites(root: Path, count: int = 600) -> np.ndarray:
    """A piece of the real order: y, then x, then orientation; pixels 0 and 1, packed as the real file."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 2, (count, 64, 64), dtype=np.uint8)
    number = np.arange(count)
    latents = np.stack([0 * number, 0 * number, 0 * number, number % 40, number % 32, number % 7], axis=1)
    np.savez_compressed(
        root / dsprites.NAME, metadata=np.array({"a": 1}, dtype=object), imgs=images, latents_classes=latents
    )
    return images


def test_dsprites_bins_and_pixels(tmp_path: Path):
    images = make_dsprites(tmp_path)
    location, orientation = (
        ENTRIES[f"dsprites_{what}"].read(tmp_path) for what in ("location", "orientation")
    )
    assert location.train.labels[:6].tolist() == [0, 0, 1, 1, 2, 2]
    assert location.train.labels[30:33].tolist() == [15, 15, 0]
    # 2.5 orientations a bin: 0 1 2 | 3 4 | 5 6 7 | 8 9 | …
    assert orientation.train.labels[:11].tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4]
    assert orientation.train.labels[37:41].tolist() == [14, 15, 15, 0]
    assert len(location.train.sources) == len(location.train.keys) == 600
    assert location.train.keys[599] == "599"
    assert len(location.test) == 0
    for index in (0, 255, 256, 599, -1):  # both sides of a block's end, and the last block, which is short
        image = location.train.sources[index]
        assert image.dtype == np.uint8
        np.testing.assert_array_equal(image, images[index] * 255)
    assert [len(part) for part in (location.train.sources[10:20], location.train.sources[::300])] == [10, 2]
    np.testing.assert_array_equal(location.train.sources[590:][3], images[593] * 255)
    with pytest.raises(IndexError):
        location.train.sources[600]


def test_dsprites_damaged_files(tmp_path: Path):
    make_dsprites(tmp_path)
    file = tmp_path / dsprites.NAME
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(UpdateFileError, match=r"64x64\.npz is damaged"):
        ENTRIES["dsprites_location"].read(tmp_path)
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        offset = packed.getinfo("imgs.npy").header_offset + 100_000
    file.write_bytes(content[:offset] + bytes(64) + content[offset + 64 :])
    raw = ENTRIES["dsprites_location"].read(tmp_path)  # the images are not looked at yet
    with pytest.raises(UpdateFileError, match=r"64x64\.npz is damaged"):
        raw.train.sources[0]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"imgs": np.zeros((4, 64, 64), np.uint8)}, "latents_classes"),
        ({"latents_classes": np.zeros((4, 6), np.int64)}, r"imgs\.npy"),
        ({"imgs": np.zeros((4, 64, 64)), "latents_classes": np.zeros((4, 6), np.int64)}, "imgs is float64"),
        (
            {"imgs": np.zeros((4, 64, 64), np.uint8), "latents_classes": np.zeros((3, 6), np.int64)},
            "for 4 images",
        ),
        ({"imgs": np.zeros((1, 64, 64), np.uint8), "latents_classes": np.full((1, 6), 40)}, "a label is"),
    ],
)
def test_dsprites_other_arrays(tmp_path: Path, arrays: dict[str, np.ndarray], reason: str):
    np.savez_compressed(tmp_path / dsprites.NAME, **arrays)  # type: ignore[arg-type]
    with pytest.raises(UpdateFileError, match=f"is damaged: .*{reason}"):
        ENTRIES["dsprites_location"].read(tmp_path)


def test_dsprites_pixels_that_are_not_binary(tmp_path: Path):
    np.savez(
        tmp_path / dsprites.NAME,
        imgs=np.full((2, 64, 64), 2, np.uint8),
        latents_classes=np.zeros((2, 6), int),
    )
    raw = ENTRIES["dsprites_location"].read(tmp_path)
    with pytest.raises(UpdateFileError, match="values other than 0 and 1"):
        raw.train.sources[1]


# SmallNORB


def norb_matrix(array: np.ndarray) -> bytes:
    magic = {"uint8": 0x1E3D4C55, "int32": 0x1E3D4C54}[array.dtype.name]
    sizes = [*array.shape, 1, 1][: max(3, array.ndim)]
    return (
        struct.pack(f"<ii{len(sizes)}i", magic, array.ndim, *sizes)
        + array.astype(array.dtype.newbyteorder("<")).tobytes()
    )


def make_norb(root: Path, packed: bool = False) -> np.ndarray:
    pairs = np.random.default_rng(0).integers(0, 256, (5, 2, 96, 96), dtype=np.uint8)
    # instance, elevation 0 … 8, azimuth 0, 2 … 34, lighting
    info = np.array([[4, 0, 0, 1], [4, 8, 34, 0], [6, 3, 2, 5], [9, 1, 16, 2], [7, 5, 18, 3]], np.int32)
    for stem in (smallnorb.TRAINING, smallnorb.TESTING):
        for kind, array in (("dat", pairs), ("info", info)):
            content = norb_matrix(array)
            name = f"{stem}-{kind}.mat"
            if packed:
                (root / f"{name}.gz").write_bytes(gzip.compress(content))
            else:
                (root / name).write_bytes(content)
    return pairs


@pytest.mark.parametrize("packed", [False, True])
def test_smallnorb_azimuth_and_elevation(tmp_path: Path, packed: bool):
    pairs = make_norb(tmp_path, packed)
    azimuth, elevation = (ENTRIES[f"smallnorb_{what}"].read(tmp_path) for what in ("azimuth", "elevation"))
    assert azimuth.train.labels.tolist() == azimuth.test.labels.tolist() == [0, 17, 1, 8, 9]
    assert elevation.train.labels.tolist() == [0, 8, 3, 1, 5]
    assert azimuth.classes[17] == "340°"
    assert elevation.classes[8] == "70°"
    np.testing.assert_array_equal(azimuth.train.sources[3], pairs[3, 0])  # of a pair the first
    assert list(azimuth.test.keys) == ["0", "1", "2", "3", "4"]
    assert not list(tmp_path.glob(".*"))


def test_smallnorb_headers(tmp_path: Path):
    """A matrix of one dimension still stores three sizes."""
    file = tmp_path / "cat.mat"
    file.write_bytes(struct.pack("<iiiii", 0x1E3D4C54, 1, 3, 1, 1) + struct.pack("<iii", 4, -5, 6))
    assert smallnorb.read_matrix(file).tolist() == [4, -5, 6]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda content: content[:-1], "size does not fit"),
        (lambda content: content + b"\x00", "size does not fit"),
        (lambda content: b"\x00" + content[1:], "does not begin as a NORB matrix"),
        (lambda content: content[:6], "does not begin as a NORB matrix"),
        (lambda content: content[:10], "size does not fit"),
        (lambda content: content[:4] + struct.pack("<i", 99) + content[8:], "does not begin as"),
        (lambda content: norb_matrix(np.zeros((5, 1, 96, 96), np.uint8)), "not that of image pairs"),
    ],
)
def test_smallnorb_damaged_images(tmp_path: Path, change, reason: str):
    make_norb(tmp_path)
    file = tmp_path / f"{smallnorb.TESTING}-dat.mat"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(UpdateFileError, match=f"testing-dat.mat is damaged: .*{reason}"):
        ENTRIES["smallnorb_azimuth"].read(tmp_path)


def test_smallnorb_inconsistent_labels(tmp_path: Path):
    make_norb(tmp_path)
    file = tmp_path / f"{smallnorb.TRAINING}-info.mat"
    file.write_bytes(norb_matrix(np.zeros((4, 4), np.int32)))
    with pytest.raises(UpdateFileError, match=r"training-info\.mat is damaged: it has shape"):
        ENTRIES["smallnorb_azimuth"].read(tmp_path)
    file.write_bytes(norb_matrix(np.full((5, 4), 36, np.int32)))
    with pytest.raises(UpdateFileError, match="a label is 18, not one of 0 to 17"):
        ENTRIES["smallnorb_azimuth"].read(tmp_path)


def test_smallnorb_a_truncated_archive(tmp_path: Path):
    make_norb(tmp_path, packed=True)
    file = tmp_path / f"{smallnorb.TRAINING}-dat.mat.gz"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(UpdateFileError, match=r"training-dat\.mat\.gz is damaged"):
        ENTRIES["smallnorb_azimuth"].read(tmp_path)
    assert not list(tmp_path.glob("*-training-dat.mat"))  # no half file that a second try would take


# DMLab


def jpeg(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (48, 36), (shade, 0, 0)).save(out, "JPEG")
    return out.getvalue()


def make_dmlab(root: Path) -> None:
    def frames(numbers: range) -> bytes:
        return b"".join(
            record(example(image=jpeg(20 * n), filename=f"f{n}.jpg".encode(), label=n % 6)) for n in numbers
        )

    (root / "dmlab-train.tfrecord-00000-of-00002").write_bytes(frames(range(3)))
    (root / "dmlab-train.tfrecord-00001-of-00002").write_bytes(frames(range(3, 7)))
    (root / "dmlab-validation.tfrecord-00000-of-00001").write_bytes(frames(range(7, 9)))
    (root / "dmlab-test.tfrecord").write_bytes(frames(range(9, 12)))


def test_dmlab_labels_and_frames(tmp_path: Path):
    make_dmlab(tmp_path)
    raw = ENTRIES["dmlab"].read(tmp_path)
    assert raw.train.labels.tolist() == [0, 1, 2, 3, 4, 5, 0]
    assert raw.test.labels.tolist() == [3, 4, 5]
    assert raw.val is not None
    assert list(raw.val.keys) == ["f7.jpg", "f8.jpg"]
    for n in (0, 2, 3, 6):
        image = raw.train.sources[n]
        assert image.shape == (36, 48, 3)
        assert abs(int(image[..., 0].mean()) - 20 * n) <= 2


def test_dmlab_damage_is_found_when_an_image_is_used(tmp_path: Path):
    make_dmlab(tmp_path)
    file = tmp_path / "dmlab-test.tfrecord"
    content = bytearray(file.read_bytes())
    content[100] ^= 1  # inside the first image
    file.write_bytes(content)
    raw = ENTRIES["dmlab"].read(tmp_path)
    assert raw.test.sources[1].shape == (36, 48, 3)
    with pytest.raises(UpdateFileError, match=r"dmlab-test\.tfrecord is damaged: the record at byte 0"):
        raw.test.sources[0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (record(example(image=b"x", filename=b"y")), "a record has no label"),
        (record(example(image=b"x", label=1)), "a record has no filename"),
        (record(example(image=b"x", filename=b"y", label=[1, 2])), "a record has no label"),
        (record(example(image=b"x", filename=b"y", label=6)), "a label is 6"),
        (record(b"\x0a\x7f"), r"not a tf\.train\.Example"),
        (record(b"")[:-1], "truncated"),
        (b"", "lists no images"),
    ],
)
def test_dmlab_damaged_records(tmp_path: Path, content: bytes, reason: str):
    make_dmlab(tmp_path)
    (tmp_path / "dmlab-test.tfrecord").write_bytes(content)
    with pytest.raises(UpdateFileError, match=rf"dmlab-test\.tfrecord is damaged: .*{reason}"):
        ENTRIES["dmlab"].read(tmp_path)


def test_dmlab_a_record_without_an_image(tmp_path: Path):
    make_dmlab(tmp_path)
    (tmp_path / "dmlab-test.tfrecord").write_bytes(record(example(image=b"no", filename=b"y", label=1)))
    raw = ENTRIES["dmlab"].read(tmp_path)
    with pytest.raises(UpdateFileError, match="holds no image"):
        raw.test.sources[0]


def test_dmlab_a_missing_part(tmp_path: Path):
    make_dmlab(tmp_path)
    (tmp_path / "dmlab-train.tfrecord-00001-of-00002").unlink()
    with pytest.raises(InputError, match=r"1 of the 2 files of dmlab-train\.tfrecord"):
        ENTRIES["dmlab"].read(tmp_path)


# KITTI


def thing(kind: str, z: float) -> str:
    """A line of a label file: 15 columns, the 14th of which is the distance ahead."""
    return f"{kind} 0.00 0 -1.58 587.01 173.33 614.12 200.12 1.65 1.67 3.64 -0.65 1.71 {z:.2f} -1.59"


def make_kitti(
    root: Path, frames: list[list[str]], videos: list[int], order: list[int] | None = None
) -> None:
    for folder in ("training/image_2", "training/label_2", "devkit_object/mapping"):
        (root / folder).mkdir(parents=True)
    for number, lines in enumerate(frames):
        Image.new("RGB", (62, 19)).save(root / f"training/image_2/{number:06}.png")
        (root / f"training/label_2/{number:06}.txt").write_text("".join(f"{line}\n" for line in lines))
    order = order or list(range(1, len(frames) + 1))
    lines = [""] * len(frames)
    for frame, line in enumerate(order):
        lines[line - 1] = f"2011_09_26 2011_09_26_drive_{videos[frame]:04}_sync {frame:010}\n"
    (root / "devkit_object/mapping/train_mapping.txt").write_text("".join(lines))
    (root / "devkit_object/mapping/train_rand.txt").write_text(",".join(map(str, order)) + "\n")


@pytest.mark.parametrize(
    ("z", "label"), [(-1.5, 0), (0.0, 0), (8.0, 0), (8.01, 1), (20.0, 1), (20.01, 2), (90.0, 2)]
)
def test_kitti_distance_at_the_edges(z: float, label: int):
    assert kitti.distance_label([50.0, z, 95.0]) == label


def test_kitti_counts_only_vehicles(tmp_path: Path):
    """Cars, vans and trucks; people, trams and regions without labels do not."""
    near = 3.0
    frames = [
        [thing("Car", 30.0), thing("Truck", 15.0), thing("Pedestrian", near)],
        [thing("Van", 7.99), thing("Car", 25.0)],
        [thing("Tram", near), thing("Cyclist", near), thing("Person_sitting", near), thing("Misc", near)],
        [thing("DontCare", -1000.0), thing("Car", 44.0)],
    ]
    make_kitti(tmp_path, frames, [0, 1, 2, 3])
    raw = ENTRIES["kitti_distance"].read(tmp_path)
    assert raw.val is not None
    labels = {
        key: int(label)
        for part in (raw.train, raw.val, raw.test)
        for key, label in zip(part.keys, part.labels, strict=True)
    }
    assert labels == {"000000.png": 1, "000001.png": 0, "000002.png": 3, "000003.png": 2}
    assert all(
        Path(source).name == key for source, key in zip(raw.train.sources, raw.train.keys, strict=True)
    )


def test_kitti_is_split_by_video(tmp_path: Path):
    """numpy.random.seed(123), then a tenth of the sorted videos twice, as TFDS draws them: pinned here."""
    rng = np.random.default_rng(1)
    videos = rng.permutation(np.repeat(np.arange(25), 2)).tolist()
    order = (1 + rng.permutation(50)).tolist()
    make_kitti(tmp_path, [[thing("Car", 5.0)]] * 50, videos, order)
    raw = ENTRIES["kitti_distance"].read(tmp_path)
    assert raw.val is not None
    drives = [{videos[int(key[:6])] for key in part.keys} for part in (raw.train, raw.val, raw.test)]
    assert drives == [set(range(25)) - {5, 14, 19, 21}, {14, 19}, {5, 21}]
    assert [len(part) for part in (raw.train, raw.val, raw.test)] == [42, 4, 4]
    assert list(raw.train.keys) == sorted(raw.train.keys)


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("training/label_2/000001.txt", "Car 0.00 0\n", "does not have 15 columns"),
        ("training/label_2/000001.txt", thing("Car", 1).replace("1.00", "near"), "not a number"),
        ("devkit_object/mapping/train_rand.txt", "1,2,x,4\n", "numbers are not lines"),
        ("devkit_object/mapping/train_rand.txt", "1,2,3,9\n", "numbers are not lines"),
        ("devkit_object/mapping/train_rand.txt", "0,1,2,3\n", "numbers are not lines"),
        ("devkit_object/mapping/train_rand.txt", "", "numbers are not lines"),
        ("devkit_object/mapping/train_mapping.txt", "a b c\n" * 4, "too few videos"),
    ],
)
def test_kitti_damaged_files(tmp_path: Path, file: str, text: str, reason: str):
    make_kitti(tmp_path, [[thing("Car", 5.0)]] * 4, [0, 1, 2, 3])
    (tmp_path / file).write_text(text)
    with pytest.raises(UpdateFileError, match=f"{Path(file).name} is damaged: .*{reason}"):
        ENTRIES["kitti_distance"].read(tmp_path)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("training/image_2/000002.png", r"1 of the . images .*000002\.png"),
        ("training/label_2/000002.txt", r"000002\.txt cannot be read"),
        ("devkit_object/mapping/train_rand.txt", r"no mapping/train_rand\.txt .*devkit_object\.zip"),
    ],
)
def test_kitti_missing_files(tmp_path: Path, file: str, reason: str):
    make_kitti(tmp_path, [[thing("Car", 5.0)]] * 4, [0, 1, 2, 3])
    (tmp_path / file).unlink()
    with pytest.raises(InputError, match=reason):
        ENTRIES["kitti_distance"].read(tmp_path)


# All


def test_markers_match_every_unpacked_folder(tmp_path: Path):
    """The patterns by which a dataset is recognised match what its reader reads, also one folder down."""
    makers = {
        "clevr_count": lambda folder: make_clevr(folder, train=[[8.0] * 3], val=[[8.0] * 3]),
        "dsprites_location": make_dsprites,
        "smallnorb_azimuth": make_norb,
        "dmlab": make_dmlab,
        "kitti_distance": lambda folder: make_kitti(folder, [[thing("Car", 5.0)]] * 4, [0, 1, 2, 3]),
    }
    for name, make in makers.items():
        folder = tmp_path / name / "deeper"
        folder.mkdir(parents=True)
        make(folder)
        assert any(list((tmp_path / name).glob(pattern)) for pattern in ENTRIES[name].markers)
        assert isinstance(ENTRIES[name].read(tmp_path / name), RawDataset)
