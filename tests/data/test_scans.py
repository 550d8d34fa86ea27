"""The scans of a JPEG are counted before it is decoded."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image

from filmtransfer.budgets import MAX_IMAGE_SCANS
from filmtransfer.data import decode, scans
from filmtransfer.errors import InputError
from tests.data.test_pixels import gradient


def jpeg(**options: object) -> bytes:
    out = BytesIO()
    gradient().save(out, "JPEG", **options)
    return out.getvalue()


def last_scan(content: bytes) -> bytes:
    return content[content.rindex(b"\xff\xda") : -2]


@pytest.mark.parametrize("block", [2, 3, 100, scans.BLOCK])
def test_scans_are_counted_before_they_are_decoded(monkeypatch, block):
    monkeypatch.setattr(scans, "BLOCK", block)
    content = jpeg(progressive=True)
    count = content.count(b"\xff\xda")
    assert 5 < count < MAX_IMAGE_SCANS, "what libjpeg writes"
    most = content[:-2] + (MAX_IMAGE_SCANS - count) * last_scan(content) + content[-2:]
    assert decode(most).size == decode(content).size
    monkeypatch.setattr("PIL.JpegImagePlugin.JpegImageFile.load", lambda _: 1 / 0)
    with pytest.raises(InputError, match=f"it has more than {MAX_IMAGE_SCANS} scans"):
        decode(most[:-2] + last_scan(content) + content[-2:])


def test_what_is_in_segments_or_follows_the_image_is_no_scan():
    """A thumbnail in EXIF, a comment, and the video that some phones append."""
    many = 2 * MAX_IMAGE_SCANS * b"\xff\xda\0\2"
    content = jpeg(comment=many, exif=b"Exif\0\0" + many)
    assert decode(content + many).size == gradient().size


def test_parts_between_scans_are_limited():
    content = jpeg()
    with pytest.raises(InputError, match="scans"):
        decode(content[:-2] + 200_001 * b"\xff\xfe\0\2" + content[-2:])


def test_a_truncated_file_is_left_to_pillow():
    content = jpeg(progressive=True)
    with pytest.raises(InputError, match="damaged"):
        decode(content[:-100] + b"\xff")
    file = BytesIO(content)
    file.seek(7)
    scans.check_scans(file)
    assert file.tell() == 7
    assert Image.open(file).size == gradient().size
