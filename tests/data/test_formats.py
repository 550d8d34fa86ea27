"""Which files are opened as images: regular ones of the formats of cameras and browsers, and no others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from io import BytesIO
from pathlib import Path

import pytest

from filmtransfer.budgets import MAX_IMAGE_FILE
from filmtransfer.data import LabelledImages, PixelSpec, check_headers, decode, largest_side, load
from filmtransfer.data.formats import open_file
from filmtransfer.data.pixels import side_of
from filmtransfer.errors import InputError
from filmtransfer.report.pictures import aspect_ratio
from tests.data.test_pixels import gradient

POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n%%EndComments\nshowpage\n%%EOF\n"


def saved(format: str) -> bytes:
    content = BytesIO()
    gradient().save(content, format)
    return content.getvalue()


@pytest.mark.parametrize("format", ["ICO", "PCX", "TGA", "SGI", "JPEG2000", "DDS", "PDF", "EPS"])
def test_other_formats_of_pillow_are_not_opened(format, tmp_path):
    file = tmp_path / "x.jpg"
    file.write_bytes(saved(format))
    assert side_of(file) == 0
    assert aspect_ratio(file) == 1
    for source in (file, file.read_bytes()):
        with pytest.raises(InputError, match="not an image"):
            decode(source)


@pytest.mark.process
def test_only_the_readers_that_are_needed_are_imported(tmp_path):
    (tmp_path / "drawing.jpg").write_bytes(POSTSCRIPT)
    (tmp_path / "photo.jpg").write_bytes(saved("JPEG"))
    code = """
import sys
from filmtransfer.data import decode
from filmtransfer.data.pixels import side_of
from filmtransfer.errors import InputError
decode("photo.jpg"), side_of("photo.jpg"), side_of("drawing.jpg")
try:
    decode("drawing.jpg")
except InputError as error:
    print(error)
print(*(name for name in sys.modules if name.startswith("PIL.") and name.endswith("Plugin")))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    message, readers = done.stdout.splitlines()
    assert message == "this is not an image"
    allowed = {f"PIL.{name}ImagePlugin" for name in ("Bmp", "Gif", "Jpeg", "Ppm", "Png")}  # Pillow's own
    assert "PIL.JpegImagePlugin" in readers.split()
    assert set(readers.split()) <= allowed


def special_files(folder: Path) -> dict[str, str]:
    """Create what is no readable photo in a folder; return the reasons by name."""
    os.mkfifo(folder / "pipe.jpg")
    (folder / "nowhere.jpg").symlink_to("missing.jpg")
    (folder / "loop.jpg").symlink_to("loop.jpg")
    (folder / "pipe-link.jpg").symlink_to("pipe.jpg")
    (folder / "device.jpg").symlink_to("/dev/zero")
    return {
        "pipe.jpg": "it is not a regular file",
        "nowhere.jpg": "no such file",
        "loop.jpg": "it cannot be read",
        "pipe-link.jpg": "it is not a regular file",
        "device.jpg": "it is not a regular file",
    }


def test_only_regular_files_are_opened(tmp_path):
    """Opening a pipe would wait for somebody to write to it."""
    reasons = special_files(tmp_path)
    (tmp_path / "folder.jpg").mkdir()
    for name, reason in (reasons | {"folder.jpg": "directory"}).items():
        assert side_of(tmp_path / name) == 0
        assert aspect_ratio(tmp_path / name) == 1
        with pytest.raises(InputError, match=reason):
            decode(tmp_path / name)


def test_a_socket_is_not_opened():
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/x.jpg")
        with pytest.raises(InputError, match="not a regular file"):
            decode(f"{folder}/x.jpg")


def test_special_files_in_a_folder_are_skipped(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").write_bytes(saved("JPEG"))
        gradient().rotate(90 * len(name)).save(tmp_path / name / "2.png")
    reasons = special_files(tmp_path / "cat")
    (tmp_path / "cat" / "deeper.jpg").mkdir()
    (tmp_path / "cat" / "deeper.jpg" / "3.png").write_bytes(saved("PNG"))
    images = LabelledImages.from_folder(tmp_path)
    check_headers(images)
    assert largest_side(images.sources) == 60
    loaded = load(images, PixelSpec(8, (0.5,) * 3, (0.5,) * 3))
    assert len(loaded.labels) == 5
    skipped = {Path(skip.name).name: skip.reason for skip in loaded.skipped}
    assert skipped.keys() == reasons.keys()
    assert all(reasons[name] in reason for name, reason in skipped.items())


def test_a_pipe_is_no_csv_file(tmp_path):
    os.mkfifo(tmp_path / "photos.csv")
    with pytest.raises(InputError, match="not a regular file"):
        LabelledImages.from_csv(tmp_path / "photos.csv")


@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_says_so(tmp_path):
    file = tmp_path / "x.png"
    gradient().save(file)
    file.chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        decode(file)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "x.webp"
    file.write_bytes(saved("WEBP"))
    os.truncate(file, MAX_IMAGE_FILE + 1)  # a sparse file, which takes no space
    with pytest.raises(InputError, match="more than 800 MB"):
        decode(file)


def test_files_are_closed(tmp_path):
    file = tmp_path / "x.png"
    gradient().save(file)
    with open_file(file) as image:
        opened = image.fp
    assert image.size == (60, 40)
    assert opened is not None
    assert opened.closed
