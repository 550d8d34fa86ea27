"""The memory that images take: charged from the header, and the same pixels as a conversion of the whole image at once."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import numpy as np
import pytest
from PIL import Image, ImageOps

from filmtransfer.budgets import MAX_IMAGE_MEMORY
from filmtransfer.data import PixelSpec, decode, memory, pixels, to_square
from filmtransfer.data.memory import decoding_memory
from filmtransfer.data.pixels import open_image, read_square
from filmtransfer.errors import InputError
from tests.data.test_pixels import gradient, heic

SPEC = PixelSpec(224, (0.5,) * 3, (0.5,) * 3)
pytestmark = pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")


def at_once(image: Image.Image) -> Image.Image:
    """Convert an image with copies of its full size, several of them in float64."""
    image.load()
    image = ImageOps.exif_transpose(image)
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in ("I;16", "I;16B", "I;16L", "I;16N", "I", "F"):
        levels = np.nan_to_num(np.asarray(image).astype(np.float64))
        top = 65535.0 if image.mode.startswith("I;16") or levels.max() > 255 else 255.0
        if image.mode == "F" and levels.max() <= 1:
            top = 1.0
        grey = (levels.clip(0, top) * (255.0 / top)).round().astype(np.uint8)
        return Image.fromarray(grey).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa") or "transparency" in image.info:
        rgba = image.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    return image.convert("RGB")


def images() -> dict[str, Image.Image]:
    """Return an image of noise in each mode, larger than a block of the conversion."""
    generator = np.random.default_rng(0)
    noise = generator.integers(0, 256, (70, 90, 4), np.uint8)
    rgba, rgb = Image.fromarray(noise), Image.fromarray(noise[..., :3])
    made = {
        mode: rgb.convert(mode) for mode in ("L", "1", "P", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "RGB")
    }
    made |= {mode: rgba.convert(mode) for mode in ("RGBA", "RGBa", "LA", "RGBX")}
    made["PA"] = rgb.convert("P").convert("PA")
    wide = generator.integers(0, 65536, (70, 90), np.uint16)
    made["I;16"] = Image.fromarray(wide)
    made["I;16B"] = Image.frombytes("I;16B", (90, 70), wide.astype(">u2").tobytes())
    made["I, 16 bits"] = Image.fromarray(wide.astype(np.int32) - 3000)
    made["F, 0 to 1"] = Image.fromarray(generator.random((70, 90), np.float32))
    floats = generator.random((70, 90), np.float32) * 400
    floats[3, 4], floats[60, 80], floats[50, 3] = np.nan, -np.inf, np.inf
    made["F, not finite"] = Image.fromarray(floats)
    clear = rgb.convert("P")
    clear.info["transparency"] = bytes(range(256))
    made["P, transparent"] = clear
    for mode, colour in (("L", 77), ("RGB", tuple(noise[5, 6, :3].tolist())), ("1", 0)):
        one = rgb.convert(mode)
        one.info["transparency"] = colour
        made[f"{mode}, transparent"] = one
    return made


@pytest.mark.parametrize("name", images())
def test_blocks_have_the_pixels_of_the_whole_image(name, monkeypatch):
    monkeypatch.setattr(pixels, "BLOCK", 32)
    image = images()[name]
    assert np.array_equal(decode(image), at_once(image))
    assert decode(image) is not image


FILES = {
    "png": ("RGB", "PNG", {}),
    "rgba.png": ("RGBA", "PNG", {}),
    "palette.png": ("P", "PNG", {"transparency": 3}),
    "grey.png": ("L", "PNG", {"transparency": 77}),
    "deep.png": ("I;16", "PNG", {}),
    "deep.tiff": ("I;16", "TIFF", {"compression": "tiff_lzw"}),
    "float.tiff": ("F, 0 to 1", "TIFF", {}),
    "cmyk.tiff": ("CMYK", "TIFF", {"compression": "tiff_adobe_deflate"}),
    "gif": ("P", "GIF", {"transparency": 3, "save_all": True, "append_images": [gradient()]}),
    "jpeg": ("RGB", "JPEG", {"progressive": True}),
    "cmyk.jpeg": ("CMYK", "JPEG", {}),
    "mpo": ("RGB", "MPO", {"save_all": True, "append_images": [gradient()]}),
    "webp": ("RGBA", "WEBP", {"save_all": True, "append_images": [gradient(90, 70)]}),
    "avif": ("RGBA", "AVIF", {}),
    "ppm": ("RGB", "PPM", {}),
    "bmp": ("L", "BMP", {}),
}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_files_have_the_pixels_of_the_whole_image(name, turned, monkeypatch):
    monkeypatch.setattr(pixels, "BLOCK", 32)
    mode, format, options = FILES[name]
    if turned and format in ("PNG", "TIFF", "JPEG", "WEBP", "AVIF", "MPO"):
        exif = Image.Exif()
        exif[0x0112] = 5
        options = options | {"exif": exif}
    content = BytesIO()
    images()[mode].save(content, format, **options)
    with Image.open(BytesIO(content.getvalue())) as image:
        assert np.array_equal(decode(content.getvalue()), at_once(image))


def declared(width: int, height: int, image: Image.Image, format: str, **options) -> bytes:
    """Return a small file whose header declares another size."""
    content = BytesIO()
    image.save(content, format, **options)
    data = bytearray(content.getvalue())
    if format == "PNG":
        data[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
        data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("mode", "side", "fits"),
    [
        ("RGB", 9990, True),
        ("I;16", 9990, True),
        ("RGBA", 9990, False),
        ("RGBA", 9300, True),
        ("LA", 9990, False),
    ],
)
def test_the_memory_of_a_png_is_known_from_its_header(mode, side, fits):
    image = Image.new(mode, (8, 8))
    content = declared(side, side, image, "PNG")
    if fits:
        with open_image(content) as opened:
            assert decoding_memory(opened, side * side) <= MAX_IMAGE_MEMORY
        with pytest.raises(InputError, match="damaged"):  # it has no such pixels
            decode(declared(64, 64, image, "PNG"))
    else:
        with pytest.raises(InputError, match="MB of memory"), open_image(content):
            pass


def webp(width: int, height: int) -> bytes:
    """Return a lossless WebP image of one colour: 40 bytes for any size."""
    content = BytesIO()
    Image.new("RGBA", (8, 8), (200, 100, 50, 90)).save(content, "WEBP", lossless=True)
    data = bytearray(content.getvalue())
    chunk = data.index(b"VP8L") + 9
    bits = int.from_bytes(data[chunk : chunk + 4], "little") & ~((1 << 28) - 1)
    data[chunk : chunk + 4] = (bits | (width - 1) | (height - 1) << 14).to_bytes(4, "little")
    return bytes(data)


def test_a_webp_of_forty_bytes_is_refused():
    with pytest.raises(InputError, match="1600 MB of memory"):
        decode(webp(10_000, 10_000))


def test_a_jpeg_of_100_megapixels_is_accepted_at_a_fraction_of_its_size():
    content = BytesIO()
    gradient(64, 64).save(content, "JPEG", subsampling=0)
    data = bytearray(content.getvalue())
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = (9990).to_bytes(2, "big") * 2
    with open_image(bytes(data), near=224) as image:
        assert image.size == (1249, 1249)
    with pytest.raises(InputError, match="MB of memory"), open_image(bytes(data)):
        pass


def test_the_strips_and_tiles_of_a_tiff_are_charged():
    short, tags = (
        3,
        {256: 64, 257: 64, 258: 8, 259: 5, 262: 1, 277: 1, 322: 1 << 15, 323: 1 << 15, 324: 8, 325: 9},
    )
    entries = b"".join(struct.pack("<HHII", tag, short + (tag > 323), 1, n) for tag, n in tags.items())
    content = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(20)
    with pytest.raises(InputError, match="4294 MB of memory"):
        decode(content)


def test_turning_an_image_is_charged(monkeypatch):
    """It takes a copy; an image that needs none is decoded."""
    exif, content = Image.Exif(), {}
    for orientation in (1, 6):
        exif[0x0112] = orientation
        file = BytesIO()
        gradient().save(file, "PNG", exif=exif)
        content[orientation] = file.getvalue()
    monkeypatch.setattr(memory, "MAX_IMAGE_MEMORY", 8 * 60 * 40 - 1)
    assert decode(content[1]).size == (60, 40)
    with pytest.raises(InputError, match="turning its 60×40 pixels"):
        decode(content[6])


def test_heic_is_charged_for_its_bits():
    with open_image(heic(gradient())) as image:
        assert decoding_memory(image, 2400) == 11 * 2400
        image.info["bit_depth"] = 10
        assert decoding_memory(image, 2400) == 17 * 2400


@pytest.mark.parametrize("fit", ["squash", "crop"])
@pytest.mark.parametrize("size", [(4, 20_000_000), (20_000_000, 4)])
def test_images_that_are_much_longer_than_wide_are_not_scaled(size, fit):
    """Pillow scales the rows first, so a column of 20 megapixels would take 18 GB."""
    image = Image.new("L", size)
    with pytest.raises(InputError, match="scaling its"):
        to_square(image, PixelSpec(224, (0.5,) * 3, (0.5,) * 3, fit=fit))


def test_a_crop_that_would_be_enlarged_beyond_measure_is_refused():
    spec = PixelSpec(224, (0.5,) * 3, (0.5,) * 3, fit="crop", crop=1e-9)
    with pytest.raises(InputError, match="MB of memory"):
        to_square(gradient(), spec)


@pytest.mark.process(seconds=5)
@pytest.mark.skipif(sys.platform != "linux", reason="other systems report no peak of a process")
def test_a_deep_image_takes_no_copies_of_its_size():
    """A grey PNG of 16 bits takes 6 bytes for each pixel: its own two, and four of the result; it took 40."""
    code = """
from io import BytesIO
from PIL import Image
from filmtransfer.data import PixelSpec, decode, to_square
content = BytesIO()
Image.new("I;16", (4000, 4000)).save(content, "PNG", compress_level=1)
to_square(decode(content.getvalue(), near=224), PixelSpec(224, (0.5,) * 3, (0.5,) * 3))
print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) * 1024 < 6 * 16_000_000 + 100_000_000


def test_large_images_are_decoded_one_after_the_other(monkeypatch):
    """Otherwise a training that reads with 8 threads could take 8 times the budget."""
    at_once, most = 0, []

    def count(image: Image.Image, spec: PixelSpec) -> np.ndarray:
        nonlocal at_once
        at_once += 1
        time.sleep(0.05)
        most.append(at_once)
        at_once -= 1
        return to_square(image, spec)

    monkeypatch.setattr(pixels, "to_square", count)
    monkeypatch.setattr(memory, "LARGE_IMAGE_MEMORY", 0)
    content = BytesIO()
    gradient().save(content, "PNG")
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: read_square(content.getvalue(), SPEC), range(8)))
    assert most == [1] * 8
