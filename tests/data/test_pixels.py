"""Decoding of all image formats and modes, damaged files, and squares of pixels."""

from __future__ import annotations

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pillow_heif
import pytest
import torch
from PIL import Image

from filmtransfer.data import PixelSpec, decode, read_squares, to_square
from filmtransfer.data.pixels import open_image, side_of
from filmtransfer.errors import InputError

SPEC = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def gradient(width: int = 60, height: int = 40) -> Image.Image:
    y, x = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([x * 255 // width, y * 255 // height, 0 * x + 128], -1).astype(np.uint8))


def heic(image: Image.Image) -> bytes:
    """Return a HEIC file, written without registering the format for all of Pillow."""
    content = BytesIO()
    pillow_heif.from_pillow(image).save(content, quality=95)
    return content.getvalue()


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".bmp", ".tiff", ".gif", ".heic"])
def test_formats(suffix, tmp_path):
    file = tmp_path / f"bild é{suffix}"
    if suffix == ".heic":
        file.write_bytes(heic(gradient()))
    else:
        gradient().save(file, **({"quality": 95} if suffix in (".jpg", ".webp") else {}))
    image = decode(file)
    assert image.mode == "RGB"
    assert image.size == (60, 40)
    difference = np.abs(np.asarray(image, int) - np.asarray(gradient(), int)).mean()
    assert difference < (14 if suffix == ".gif" else 6)


@pytest.mark.parametrize("mode", ["L", "1", "P", "RGBA", "LA", "CMYK", "I;16", "F"])
def test_modes_become_rgb(mode, tmp_path):
    if mode == "I;16":
        levels = (np.asarray(gradient().convert("L")).astype(np.uint16)) * 257
        image = Image.fromarray(levels)
    elif mode == "F":
        image = gradient().convert("F")
    elif mode == "LA":
        image = gradient().convert("L").convert("LA")
    else:
        image = gradient().convert(mode)
    file = tmp_path / ("x.tiff" if mode in ("CMYK", "F") else "x.png")
    image.save(file)
    decoded = decode(file)
    assert decoded.mode == "RGB"
    if mode in ("1", "P"):  # few colours: exactly those that were saved
        expected = image.convert("RGB")
    else:
        expected = gradient().convert("L").convert("RGB") if mode in ("L", "LA", "I;16", "F") else gradient()
    assert np.abs(np.asarray(decoded, int) - np.asarray(expected, int)).mean() < 4


def test_transparency_becomes_white():
    image = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    assert np.asarray(decode(image)).min() == 255


def test_a_transparent_colour_becomes_white(tmp_path):
    file = tmp_path / "x.png"
    Image.new("RGB", (8, 8), (10, 20, 30)).save(file, transparency=(10, 20, 30))
    assert np.asarray(decode(file)).min() == 255


def test_images_in_memory_are_checked_too():
    with pytest.raises(InputError, match="too few"):
        decode(Image.new("RGB", (1, 1)))
    with pytest.raises(InputError, match="too few"):
        decode(np.zeros((1, 1, 3), np.uint8))


def test_exif_orientation_is_applied(tmp_path):
    file = tmp_path / "turned.jpg"
    upright = Image.new("RGB", (40, 20), "black")
    upright.paste("white", (0, 0, 20, 20))  # left half white
    exif = Image.Exif()
    exif[0x0112] = 6  # to be displayed rotated by 90° clockwise
    upright.save(file, exif=exif, quality=95)
    shown = decode(file)
    assert shown.size == (20, 40)
    pixels = np.asarray(shown.convert("L"))
    assert pixels[:18].mean() > 240  # the white half is on top now
    assert pixels[22:].mean() < 15


def test_the_first_frame_of_a_gif_is_used(tmp_path):
    file = tmp_path / "animated.gif"
    frames = [Image.new("RGB", (10, 10), colour) for colour in ("red", "blue")]
    frames[0].save(file, save_all=True, append_images=frames[1:])
    assert decode(file).getpixel((5, 5)) == (255, 0, 0)


def broken(tmp_path: Path) -> dict[str, Path]:
    complete = BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(complete, "JPEG")
    contents = {
        "truncated.jpg": complete.getvalue()[: len(complete.getvalue()) // 3],
        "empty.jpg": b"",
        "text.jpg": b"I am a text file that was renamed.",
        "noise.png": b"\x89PNG\r\n\x1a\n" + b"nonsense" * 9,
    }
    files = {}
    for name, content in contents.items():
        files[name] = tmp_path / name
        files[name].write_bytes(content)
    huge = BytesIO()
    Image.new("1", (20_000, 10_000)).save(huge, "PNG")
    files["huge.png"] = tmp_path / "huge.png"
    files["huge.png"].write_bytes(huge.getvalue())
    files["dot.png"] = tmp_path / "dot.png"
    Image.new("RGB", (1, 1)).save(files["dot.png"])
    files["missing.jpg"] = tmp_path / "missing.jpg"
    return files


REASONS = {
    "truncated.jpg": "damaged",
    "empty.jpg": "empty",
    "text.jpg": "not an image",
    "noise.png": "not an image|damaged",
    "huge.png": "more than 100 megapixels",
    "dot.png": "too few",
    "missing.jpg": "no such file",
}


@pytest.mark.parametrize("name", REASONS)
def test_broken_images_report_the_reason(name, tmp_path):
    with pytest.raises(InputError, match=REASONS[name]):
        decode(broken(tmp_path)[name])


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4), np.float32),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((0, 4, 3), np.uint8),
    ],
)
def test_invalid_arrays_are_rejected(array):
    with pytest.raises(InputError, match="dtype"):
        decode(array)


def test_squash_keeps_the_complete_image_and_crop_its_centre():
    image = Image.new("RGB", (80, 40), "black")
    image.paste("white", (0, 0, 10, 40))  # a white edge on the left
    squashed = to_square(image, SPEC)
    assert squashed.shape == (3, 32, 32)
    assert squashed.dtype == np.uint8
    assert squashed.flags.c_contiguous
    assert int(squashed[:, :, 0].min()) > 200
    cropped = to_square(image, PixelSpec(32, SPEC.mean, SPEC.std, fit="crop"))
    assert cropped.shape == (3, 32, 32)
    assert int(cropped.max()) == 0


def test_draft_decoding_gives_the_same_image(tmp_path):
    """JPEGs are decoded at a fraction of their size; the square must not change visibly."""
    file = tmp_path / "large.jpg"
    gradient(1600, 1200).save(file, quality=95)
    fast, slow = to_square(decode(file, near=32), SPEC), to_square(decode(file), SPEC)
    assert np.abs(fast.astype(int) - slow).mean() < 1.5


def test_arrays_of_other_libraries_and_other_paths(tmp_path):
    array, file = np.asarray(gradient()), tmp_path / "x.png"
    gradient().save(file)
    (entry,) = os.scandir(tmp_path)
    for source in (torch.from_numpy(array.copy()), np.str_(file), entry):
        assert np.array_equal(np.asarray(decode(source)), array)
        assert side_of(source) == 60
    for source in (None, 7, [1, 2]):
        with pytest.raises(InputError, match="dtype"):
            decode(source)
        assert side_of(source) == 0


@pytest.fixture
def no_heif_yet(monkeypatch):
    """Pillow as it is before the first HEIC file."""
    monkeypatch.delitem(Image.OPEN, "HEIF", raising=False)


@pytest.mark.usefixtures("no_heif_yet")
def test_the_decoder_of_heic_is_registered_by_the_first_file():
    png = BytesIO()
    gradient().save(png, "PNG")
    decode(png.getvalue())
    assert "HEIF" not in Image.OPEN, "no other format needs it"
    with open_image(heic(gradient())) as image:
        assert image.format == "HEIF"
    assert Image.OPEN["HEIF"][0] is pillow_heif.HeifImageFile
    assert side_of(heic(gradient())) == 60


@pytest.mark.usefixtures("no_heif_yet")
def test_threads_can_meet_the_first_heic_file_together():
    files = [heic(gradient())] * 32
    squares, skipped = read_squares(files, SPEC, ["?"] * len(files))
    assert skipped == []
    assert all(np.array_equal(square, squares[0]) for square in squares)


@pytest.mark.process
def test_the_package_needs_neither_torch_nor_the_decoder_of_heic():
    code = """
import sys
import numpy, PIL.Image, PIL.ImageOps
import filmtransfer.data, filmtransfer.data.sample, filmtransfer.data.videos
filmtransfer.data.sample.sample_drawings(1, 0)
assert not {"torch", "pillow_heif", "av"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
