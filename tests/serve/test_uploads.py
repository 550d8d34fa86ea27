"""Images of every format: accepted, or refused with the reason."""

from __future__ import annotations

import re
from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from filmtransfer.data import PixelSpec
from filmtransfer.errors import InputError
from filmtransfer.serve.decoder import describe, respond
from filmtransfer.serve.decoders import Decoders
from filmtransfer.serve.settings import ServiceSettings
from tests.data.test_pixels import REASONS, broken, gradient, heic

SPEC = PixelSpec(32, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
PATHS = ("/api/classes/{}/photos", "/api/predictions")


@pytest.fixture(scope="module")
def client(service, update_file):
    client = service.client("anna")
    content = update_file.read_bytes()
    client.post("/api/versions", content=content, headers={"Content-Type": "application/octet-stream"})
    return client


@pytest.fixture(scope="module")
def class_id(client) -> str:
    return client.post("/api/classes", json={"name": "images"}).json()["id"]


def as_bytes(image: Image.Image, format: str, **more) -> bytes:
    out = BytesIO()
    image.save(out, format, **more)
    return out.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return as_bytes(gradient(), "JPEG", exif=exif)


GOOD = {
    "jpeg": (as_bytes(gradient(), "JPEG"), "image/jpeg"),
    "png": (as_bytes(gradient(), "PNG"), "image/png"),
    "webp": (as_bytes(gradient(), "WEBP"), "image/webp"),
    "bmp": (as_bytes(gradient(), "BMP"), "image/bmp"),
    "tiff": (as_bytes(gradient(), "TIFF"), "image/tiff"),
    "heic": (heic(gradient()), "image/heic"),
    "avif": (as_bytes(gradient(), "AVIF"), "image/avif"),
    "ppm": (as_bytes(gradient(), "PPM"), "image/x-portable-pixmap"),
    "animated gif": (
        as_bytes(gradient(), "GIF", save_all=True, append_images=[gradient().rotate(90)]),
        "image/gif",
    ),
    "two pictures in one": (
        as_bytes(gradient(), "MPO", save_all=True, append_images=[gradient()]),
        "image/jpeg",
    ),
    "cmyk": (as_bytes(gradient().convert("CMYK"), "JPEG"), "image/jpeg"),
    "grey": (as_bytes(gradient().convert("L"), "PNG"), "image/png"),
    "palette": (as_bytes(gradient().convert("P"), "PNG"), "image/png"),
    "transparent": (as_bytes(gradient().convert("RGBA"), "PNG"), "image/png"),
    "16 bit": (
        as_bytes(Image.fromarray(np.arange(4096, dtype=np.uint16).reshape(64, 64) * 16), "PNG"),
        "image/png",
    ),
    "exif": (turned(), "image/jpeg"),
}


@pytest.mark.parametrize("name", GOOD)
def test_images_of_every_format_are_stored_and_classified(client, class_id, name):
    content, kind = GOOD[name]
    headers = {"Content-Type": "image/anything"}  # the declared type does not matter
    made = client.post(PATHS[0].format(class_id), content=content, headers=headers)
    assert made.status_code == 201, made.text
    assert made.json()["media_type"] == kind
    shown = client.get(f"/api/photos/{made.json()['id']}")
    assert shown.content == content
    assert shown.headers["content-type"] == kind
    small = Image.open(BytesIO(client.get(f"/api/photos/{made.json()['id']}/thumbnail").content))
    assert small.format == "JPEG"
    assert small.size == {"exif": (40, 60), "16 bit": (64, 64)}.get(name, (60, 40))
    asked = client.post(PATHS[1], content=content, headers=headers)
    assert asked.status_code == 200, asked.text
    assert sum(one["p"] for one in asked.json()["probabilities"]) == pytest.approx(1)


@pytest.mark.process(seconds=3)
def test_decoder_processes_have_the_same_results(tmp_path):
    """They can open no file, hence import nothing, while they decode."""
    lab = as_bytes(Image.new("LAB", (60, 40), (50, 100, 100)), "TIFF")
    damaged = [file.read_bytes() for file in broken(tmp_path).values() if file.exists()]
    pool = Decoders(ServiceSettings())
    try:
        for content in [*(content for content, _ in GOOD.values()), lab, *damaged]:
            for request, ask in (
                ({}, pool.thumbnail),
                (describe(SPEC), lambda content: pool.square(content, SPEC)),
            ):
                document, result = respond(request, content)
                if "error" in document:
                    with pytest.raises(InputError, match=re.escape(document["error"].rstrip("."))):
                        ask(content)
                elif request:
                    assert ask(content).tobytes() == result
                else:
                    assert ask(content) == (document["media_type"], result)
    finally:
        pool.close()


@pytest.mark.parametrize("name", [name for name in REASONS if name != "missing.jpg"])
def test_broken_images_are_refused_with_the_reason(client, class_id, name, tmp_path):
    content = broken(tmp_path)[name].read_bytes()
    before = client.get("/api/me").json()["used"]
    for path in PATHS:
        answer = client.post(path.format(class_id), content=content, headers={"Content-Type": "image/png"})
        assert answer.status_code == 400, (path, answer.text)
        error = answer.json()["error"]
        assert error["code"] == "bad_input"
        assert any(reason in error["message"] for reason in REASONS[name].split("|")), error
        assert error["hint"]
    assert client.get("/api/me").json()["used"] == before


def test_a_jpeg_bomb_is_refused_before_it_is_decoded(client, class_id, monkeypatch):
    """Its header declares 60000 × 60000 pixels, which must not be decoded at any scale."""
    content = bytearray(as_bytes(gradient(), "JPEG"))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = (60_000).to_bytes(2, "big") * 2
    for decoder in ("load", "draft"):
        monkeypatch.setattr("PIL.JpegImagePlugin.JpegImageFile." + decoder, lambda *_: 1 / 0)
    for path in PATHS:
        answer = client.post(
            path.format(class_id), content=bytes(content), headers={"Content-Type": "image/jpeg"}
        )
        assert answer.status_code == 400
        assert "megapixels" in answer.json()["error"]["message"]


def test_formats_that_start_other_programs_are_refused(client, class_id):
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 50 50\n%%EndComments\nshowpage\n%%EOF\n"
    for path in PATHS:
        answer = client.post(path.format(class_id), content=script, headers={"Content-Type": "image/x-eps"})
        assert answer.status_code == 400
        assert "not an image" in answer.json()["error"]["message"]
    drawing = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    answer = client.post(
        PATHS[0].format(class_id), content=drawing, headers={"Content-Type": "image/svg+xml"}
    )
    assert answer.status_code == 400
