"""Tags, profiles and comments of images: charged before Pillow reads them, and the orientation of every format."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from contextlib import suppress
from io import BytesIO

import numpy as np
import pillow_heif
import pytest
from PIL import Image, ImageOps, PngImagePlugin

from filmtransfer.budgets import MAX_IMAGE_METADATA
from filmtransfer.data import PixelSpec, decode, memory, metadata
from filmtransfer.data.pixels import read_square, side_of
from filmtransfer.errors import InputError
from filmtransfer.report.pictures import aspect_ratio
from filmtransfer.serve.decoder import make_thumbnail
from tests.data.test_pixels import gradient, heic

ALLOWED = 20_000_000  # bytes: far below what any of these files would take, above what any needs
SPEC = PixelSpec(32, (0.5,) * 3, (0.5,) * 3)
MEGABYTE = b"\1" * 1_000_000


def directory(entries: list[tuple[int, int, int, int]], order: str = "<") -> bytes:
    """Return the bytes of a directory of tags: number, type, count, and value or offset."""
    content = struct.pack(f"{order}H", len(entries))
    for number, type_, count, value in sorted(entries):
        packed = (
            struct.pack(f"{order}HH", value, 0)
            if (type_, count) == (3, 1)
            else struct.pack(f"{order}I", value)
        )
        content += struct.pack(f"{order}HHI", number, type_, count) + packed
    return content + bytes(4)


def shared(number: int, blob: bytes, type_: int = 7, first: int = 40000) -> bytes:
    """Return an EXIF block in which many tags refer to the same bytes."""
    count, offset = len(blob) // metadata.SIZES[type_], 8 + 2 + 12 * (number + 1) + 4
    entries = [(first + i, type_, count, offset) for i in range(number)]
    return b"II*\0\x08\0\0\0" + directory([(274, 3, 1, 6), *entries]) + blob


def saved(format: str, image: Image.Image | None = None, **options) -> bytes:
    file = BytesIO()
    (image or gradient()).save(file, format, **options)
    return file.getvalue()


def tiff(entries: list[tuple[int, int, int, int]], data: bytes, rows: int = 4) -> bytes:
    """Return a grey TIFF of 4 columns with further tags; ``data`` follow its directory, at offset ``data_offset``."""
    own = [(256, 4, 1, 4), (257, 4, 1, rows), (258, 3, 1, 8), (259, 3, 1, 1), (262, 3, 1, 1), (277, 3, 1, 1)]
    return b"II*\0\x08\0\0\0" + directory([*own, *entries]) + data


def data_offset(entries: int) -> int:
    return 8 + 2 + 12 * (6 + entries) + 4


def tiff_with(number: int, type_: int, blob: bytes, link: int | None = None) -> bytes:
    """Return a TIFF with many tags that refer to the same bytes, in its directory or in one that ``link`` refers to."""
    count = len(blob) // metadata.SIZES[type_]
    many = [(40000 + i, type_, count, 0) for i in range(number)]
    inner = data_offset(4)
    start = data_offset(3 + number) if link is None else inner + 2 + 12 * number + 4
    many = [(tag, kind, size, start) for tag, kind, size, _ in many]
    pixels = [(273, 4, 1, start), (278, 4, 1, 4), (279, 4, 1, 16)]
    if link is None:
        return tiff([*pixels, *many], blob)
    return tiff([*pixels, (link, 4, 1, inner)], directory(many) + blob)


def jpeg_with(*segments: tuple[int, bytes]) -> bytes:
    extra = b"".join(struct.pack(">BBH", 0xFF, marker, len(s) + 2) + s for marker, s in segments)
    return b"\xff\xd8" + extra + saved("JPEG")[20:]  # without JFIF's density, Pillow looks for one in EXIF


def png_with(*chunks: tuple[bytes, bytes], after: bool = False) -> bytes:
    content = saved("PNG")
    extra = b"".join(
        struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d)) for n, d in chunks
    )
    position = len(content) - 12 if after else 33
    return content[:position] + extra + content[position:]


def gif_with(*blocks: bytes) -> bytes:
    content = saved("GIF")
    start = 13 + 3 * (2 << (content[10] & 7))
    return content[:start] + b"".join(blocks) + content[start:]


def avif_with(exif: bytes) -> bytes:
    """Return an AVIF image with an EXIF block that Pillow would not write."""
    other = b"II*\0\x08\0\0\0" + directory([]) + b"?" * (len(exif) - 14)
    return saved("AVIF", exif=other).replace(other, exif)


def box(name: bytes, *contents: bytes) -> bytes:
    return struct.pack(">I", 8 + sum(map(len, contents))) + name + b"".join(contents)


def heif_with(version: int, metadata: int, images: int, extents: int = 1) -> bytes:
    """Return the boxes of a HEIF file: one block of metadata of so many bytes that is that of several images."""
    width = ">I" if version == 2 else ">H"
    numbers = {0: b"", 1: b"\0\0", 2: b"\0\0"}[version]
    items = [struct.pack(width, 7) + numbers + b"\0\0" + struct.pack(">H", extents)]
    items += [struct.pack(">II", 500, metadata // extents)] * extents
    iloc = box(b"iloc", bytes([version, 0, 0, 0, 0x44, 0]), struct.pack(width, 1), *items)
    targets = struct.pack(f">{images}H", *range(images))
    cdsc = box(b"cdsc", struct.pack(">HH", 7, images), targets)
    references = box(b"iref", bytes(4), box(b"thmb", struct.pack(">HHH", 7, 1, 1)), cdsc)
    return box(b"ftyp", b"heic") + box(b"meta", bytes(4), iloc, references) + box(b"mdat", bytes(metadata))


def split(content: bytes, size: int) -> list[bytes]:
    return [content[i : i + size] for i in range(0, len(content), size)]


def exif_segments(block: bytes) -> list[tuple[int, bytes]]:
    return [(0xE1, b"Exif\0\0" + part) for part in split(block, 65000)]


BOMBS = {
    "png": lambda: png_with((b"eXIf", shared(5000, MEGABYTE))),
    "png, after the pixels": lambda: png_with((b"eXIf", shared(5000, MEGABYTE)), after=True),
    "webp": lambda: saved("WEBP", exif=shared(5000, MEGABYTE)),
    "avif": lambda: avif_with(shared(5000, MEGABYTE)),
    "jpeg": lambda: jpeg_with(*exif_segments(shared(5000, MEGABYTE))),
    "jpeg, one segment": lambda: jpeg_with((0xE1, b"Exif\0\0" + shared(2700, b"\1" * 32000))),
    "mpo": lambda: jpeg_with((0xE2, b"MPF\0" + shared(2700, b"\1" * 32000))),
    "tiff": lambda: tiff_with(5000, 7, MEGABYTE),
    "tiff, numbers": lambda: tiff_with(50, 5, MEGABYTE),
    "tiff, EXIF": lambda: tiff_with(5000, 7, MEGABYTE, link=34665),
    "tiff, GPS": lambda: tiff_with(50, 5, MEGABYTE, link=34853),
    "tiff, strips": lambda: tiff(
        [(273, 4, 10**6, data_offset(3)), (278, 4, 1, 1), (279, 4, 1, 4)], bytes(4 * 10**6), 10**6
    ),
    "jpeg, tables": lambda: jpeg_with(*[(0xC0, b"\x08\0\1\0\1\x03" + bytes(65000))] * 10),
    "jpeg, segments": lambda: jpeg_with(*[(0xE1, b"Exif\0\0")] * 300_000),
    "jpeg, prefixes": lambda: jpeg_with(*[(0xE1, b"Exif\0\0" * 10_000)] * 20),
    "png, chunks": lambda: png_with(*[(b"prVt", b"")] * 300_000),
    "png, profiles": lambda: png_with(*[(b"iCCP", b"x\0\0" + zlib.compress(bytes(10**6)))] * 100),
    "png, chromaticity": lambda: png_with((b"cHRM", bytes(4 * 10**6))),
    "gif, comment": lambda: gif_with(b"!\xfe" + (b"\xff" + b"a" * 255) * 40_000 + b"\0"),
    "ppm, comment": lambda: b"P6\n#" + bytes(300_000) + b"\n8 8\n255\n" + bytes(192),
    "ppm, spaces": lambda: b"P6\n4 4\n" + b" " * 300_000 + b"255\n" + bytes(48),
    "gif, comments": lambda: gif_with(*[b"!\xfe\1a\0"] * 200_000),
}


def test_what_ordinary_files_contain_is_read():
    profile, xmp = bytes(3_000_000), b"<x:xmpmeta>" + b" " * 2_000_000
    camera = shared(40, b"\1" * 1000)
    files = [
        saved("JPEG", icc_profile=profile, xmp=b"<x/>", exif=camera, comment="x" * 60_000),
        saved("PNG", icc_profile=bytes(900_000), exif=camera),
        saved("WEBP", icc_profile=profile, xmp=xmp, exif=camera),
        saved("TIFF", icc_profile=profile, tiffinfo={700: xmp, 37724: bytes(20_000_000)}),
        tiff([(273, 4, 1, 200), (278, 4, 1, 1), (279, 4, 4, 200)], bytes(200)),
        gif_with(b"!\xff\x0bXMP DataXMP" + (b"\xff" + b"a" * 255) * 5000 + b"\0", b"!\xfe" + (b"\xffa" + b"b" * 254) * 300 + b"\0"),
    ]  # fmt: skip
    for content in files:
        decode(content)


@pytest.mark.parametrize("name", BOMBS)
def test_metadata_is_charged_before_it_is_read(name):
    """Each of these takes more memory, or time that grows with its square, if Pillow may read it."""
    content = BOMBS[name]()
    for read in (decode, side_of, aspect_ratio):
        tracemalloc.start()
        with suppress(InputError):
            read(content)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * len(content) + ALLOWED


@pytest.mark.parametrize(
    "name", [name for name in BOMBS if name not in ("png", "png, after the pixels", "webp")]
)
def test_files_with_too_much_metadata_are_refused(name):
    with pytest.raises(InputError, match=r"of metadata|parts"):
        decode(BOMBS[name]())


@pytest.mark.parametrize("name", ["png", "png, after the pixels", "webp"])
def test_what_the_service_accepts_takes_as_little_when_it_is_decoded_again(name):
    """A photo is decoded at its upload, in a process with limits, and again by a training, in one without."""
    content = BOMBS[name]()
    for read in (make_thumbnail, lambda data: read_square(data, SPEC)):
        tracemalloc.start()
        read(content)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 3 * len(content) + ALLOWED
    assert decode(content).size == (40, 60), "the orientation is read nevertheless"


@pytest.mark.parametrize(
    "content",
    [
        b"P6\n# made by hand\n4 4\n255\n" + b" " * 48,
        b"P5 4\t4\r255\n" + b"#" * 16,
        b"P4\n8\n8\n" + b" " * 8,
        b"P4\n8\n8\n" + b"#" * 8,
        b"Pf\n4 4\n-1.0\n" + bytes(64),
        b"P5\n1000 1000\n65535\n" + b"\n " * 1_000_000,
    ],
)
def test_headers_of_ppm_are_read(content):
    assert min(decode(content).size) >= 4


def test_ppm_with_decimal_numbers_is_not_opened():
    """Pillow takes time that grows with the square of its comments."""
    with pytest.raises(InputError, match="not an image"):
        decode(b"P3\n4 4\n255\n" + b"#\n1 " * 48)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_metadata_of_heif_is_charged_for_each_of_its_images(version):
    for content, fits in (
        (heif_with(version, MAX_IMAGE_METADATA // 40 - 100, 40), True),
        (heif_with(version, MAX_IMAGE_METADATA // 40 + 100, 40), False),
        (heif_with(version, 3_000_000, 1, extents=30), True),
        (
            heif_with(version, 3_000_000, 1, extents=30).replace(struct.pack(">I", 100_000), b"\0\x2f\0\0"),
            False,
        ),
    ):
        if fits:
            metadata.check_metadata(BytesIO(content), "HEIF")
        else:
            with pytest.raises(InputError, match="64 MB of metadata"):
                decode(content)


def test_heif_files_of_several_images_are_read():
    images = pillow_heif.HeifFile()
    for angle in (0, 90):
        images.add_from_pillow(gradient(64, 64).rotate(angle))
    for image in images:
        image.info["exif"] = shared(3, b"1" * 20_000)
    file = BytesIO()
    images.save(file)
    assert decode(file.getvalue()).size == (64, 64)
    assert len(images_charged(file)) == 2


def images_charged(file: BytesIO) -> list[int]:
    """Return the sizes of at least 20 KB that were charged for a HEIF file."""
    charged: list[int] = []
    charge = metadata.Charge()
    charge.add = lambda size, parts=1: charged.append(size)  # type: ignore[method-assign]
    metadata.CHARGES["HEIF"](file, charge)
    return [size for size in charged if size >= 20_000]


def test_directories_that_refer_to_each_other_are_read_once():
    start = data_offset(4)
    pixels = [(273, 4, 1, 8), (278, 4, 1, 4), (279, 4, 1, 16), (34665, 4, 1, start)]
    content = tiff(pixels, directory([(40965, 4, 1, 8), (34853, 4, 1, start)]))
    assert decode(content[:-4] + struct.pack("<I", 8)).size == (4, 4)


def test_bigtiff_is_charged():
    pixels = [(256, 4), (257, 4), (258, 8), (259, 1), (262, 1), (273, 16), (277, 1), (278, 4), (279, 16)]
    entries = [struct.pack("<HHQQ", tag, 4, 1, value) for tag, value in pixels]
    header = b"II+\0\x08\0\0\0" + struct.pack("<Q", 16)
    assert decode(header + struct.pack("<Q", len(entries)) + b"".join(entries) + bytes(8)).size == (4, 4)
    entries += [struct.pack("<HHQQ", 40000 + i, 7, 10**6, 500) for i in range(5000)]
    with pytest.raises(InputError, match="64 MB of metadata"):
        decode(header + struct.pack("<Q", len(entries)) + b"".join(entries) + bytes(8) + MEGABYTE)


def raw_profile(exif: bytes) -> PngImagePlugin.PngInfo:
    """Return EXIF as ImageMagick writes it into a PNG."""
    info = PngImagePlugin.PngInfo()
    info.add_text(
        "Raw profile type exif", f"\nexif\n{len(exif):8}\n" + "\n".join(split(exif.hex(), 72)), zip=True
    )
    return info


def turned(format: str, orientation: int) -> bytes:
    """Return an image whose four corners differ, with an orientation in the way that a format has."""
    image, exif = gradient(), Image.Exif()
    exif[0x0112] = orientation
    xmp = f'<rdf:Description tiff:Orientation="{orientation}"/>'.encode()
    match format:
        case "HEIF":
            decode(heic(image))  # registers the format
            return saved(format, image, exif=exif.tobytes())
        case "raw profile":
            return saved("PNG", image, pnginfo=raw_profile(b"Exif\0\0" + exif.tobytes()))
        case "after the pixels":
            return png_with((b"eXIf", exif.tobytes()[6:]), after=True)
        case "big-endian":
            return saved(
                "WEBP", image, exif=b"MM\0*\0\0\0\x08" + directory([(274, 3, 1, orientation)], order=">")
            )
        case "XMP in JPEG" | "XMP in WEBP":
            return saved(format.split()[-1], image, xmp=xmp)
        case "XMP in PNG":
            info = PngImagePlugin.PngInfo()
            info.add_itxt("XML:com.adobe.xmp", xmp.decode())
            return saved("PNG", image, pnginfo=info)
        case "MPO":
            return saved("MPO", image, exif=exif, save_all=True, append_images=[gradient()])
        case _:
            return saved(format, image, exif=exif)


WAYS = ("JPEG", "MPO", "PNG", "WEBP", "TIFF", "AVIF", "HEIF", "raw profile", "after the pixels", "big-endian")
XMP_WAYS = ("XMP in JPEG", "XMP in WEBP", "XMP in PNG")


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("format", WAYS + XMP_WAYS)
def test_the_orientation_is_that_of_pillow(format, orientation):
    content = turned(format, orientation)
    decode(heic(gradient()))  # registers the reader for Pillow too
    with Image.open(BytesIO(content)) as image:
        image.load()
        expected = ImageOps.exif_transpose(image).convert("RGB")
    assert (expected.size == (40, 60)) == (orientation > 4), "the file has its orientation"
    upright = decode(content)
    assert np.array_equal(upright, expected)
    assert np.array_equal(decode(upright), expected), "it is turned once"
    with Image.open(BytesIO(content)) as image:
        assert np.array_equal(decode(image), expected)
    if format != "after the pixels":  # which is known only when it is decoded
        assert aspect_ratio(content) == expected.width / expected.height


@pytest.mark.parametrize(
    "exif", [b"", b"Exif\0\0", b"II*\0", b"no EXIF", b"II*\0\xff\xff\xff\xff", shared(3, b"123456")[:60]]
)
def test_a_damaged_exif_block_has_no_orientation_or_the_one_that_is_left(exif):
    assert decode(png_with((b"eXIf", exif))).size in ((60, 40), (40, 60))


@pytest.mark.parametrize("value", [(0, 3), (9, 3), (65535, 3), (6, 2), (6, 5)])
def test_other_values_are_no_orientation(value):
    number, type_ = value
    block = b"II*\0\x08\0\0\0" + directory([(274, type_, 1, number)])
    assert decode(png_with((b"eXIf", block))).size == (60, 40)


def test_turning_a_thumbnail_is_charged(monkeypatch):
    content = png_with((b"eXIf", shared(1, b"12345")))
    make_thumbnail(content)
    monkeypatch.setattr(memory, "MAX_IMAGE_MEMORY", 8 * 60 * 40 - 1)
    with pytest.raises(InputError, match="turning its 60×40 pixels"):
        make_thumbnail(content)
