"""Archives of data sets: unpacked completely or not at all, and never outside the folder."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import tarfile
import tempfile
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path

from filmtransfer.bench.datasets import archives
from filmtransfer.bench.datasets.archives import unpack
from filmtransfer.bench.datasets.unpacked import find_unzipped
from filmtransfer.errors import FitError
from tests.fuzz.mutation import mutate_bytes

TRACED = tuple(module.__file__ for module in (tarfile, zipfile, gzip))
LIMIT = 2_000_000  # bytes to which a small archive may expand here
LARGE = (1_000_000, 3_000_000, 30_000_000)  # bytes of a member that compresses well
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tar.bz2", ".tar.xz")  # the first byte of an input is an index
PACK = {2: gzip.compress, 3: bz2.compress, 4: lzma.compress}
OPEN = {2: gzip.decompress, 3: bz2.decompress, 4: lzma.decompress}


def seeds() -> list[bytes]:
    plain = [_tar(tarfile.USTAR_FORMAT), _tar(tarfile.GNU_FORMAT), _tar(tarfile.PAX_FORMAT)]
    zips = [
        _zip(zipfile.ZIP_STORED),
        _zip(zipfile.ZIP_DEFLATED),
        _zip(zipfile.ZIP_LZMA),
        _zip(zipfile.ZIP_BZIP2),
    ]
    return [
        *(b"\0" + content for content in [*zips, _zip(zipfile.ZIP_STORED, inner=plain[0])]),
        *(b"\1" + content for content in plain),
        *(bytes([kind]) + pack(plain[0]) for kind, pack in PACK.items()),
    ]


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change the tar inside of what is compressed, or one of its headers with a valid checksum; or expand a member."""
    kind = data[0] % len(SUFFIXES) if data else 0
    if rng.random() < 0.1:
        return _expanded(kind, rng)
    try:
        content = OPEN.get(kind, bytes)(data[1:])
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError):
        return mutate_bytes(data, [data], rng)
    changed = mutate_bytes(content, [content], rng)
    if kind:
        changed = _with_checksums(changed)
    return bytes([kind]) + PACK.get(kind, bytes)(changed)


def run(data: bytes) -> None:
    kind = data[0] % len(SUFFIXES) if data else 0
    archives.MAX_UNPACKED_SMALL = LIMIT
    with tempfile.TemporaryDirectory() as root:
        archive = Path(root, f"archive{SUFFIXES[kind]}")
        archive.write_bytes(data[1:])
        before = _files(root)
        target = Path(root, "target")
        try:
            unpack([archive], target)
        except FitError:
            assert _files(root) == before, "something was left of an archive that cannot be unpacked"
        else:
            outside = [path for path in _files(root) - before if not path.startswith(str(target))]
            assert not outside, f"{outside} is outside the folder"
            for folder, folders, names in os.walk(target):
                for path in (Path(folder, name) for name in [*folders, *names]):
                    assert path.resolve().is_relative_to(target.resolve()), f"{path} leads outside"
            size = sum(path.lstat().st_blocks * 512 for path in target.rglob("*") if path.is_file())
            limit = max(LIMIT, archives.MAX_UNPACKED_RATIO * len(data))
            assert size <= limit + 4096 * len(list(target.rglob("*"))), f"{size} bytes were unpacked"
        if kind == 2:
            archive.rename(Path(root, "values.gz"))
            with suppress(FitError):
                find_unzipped(Path(root), "values")


def _files(root: str) -> set[str]:
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names}


def _tar(kind: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=kind) as tar:
        for name, content in (
            ("data/a.jpg", b"image"),
            (f"data/{'long' * (10 if kind == tarfile.USTAR_FORMAT else 30)}.txt", b"text" * 200),
        ):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("data/link")
        link.type, link.linkname = tarfile.SYMTYPE, "a.jpg"
        tar.addfile(link)
        hard = tarfile.TarInfo("data/hard")
        hard.type, hard.linkname = tarfile.LNKTYPE, "data/a.jpg"
        tar.addfile(hard)
    return file.getvalue().rstrip(b"\0") + bytes(1024)


def _zip(method: int, inner: bytes = b"") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as packed:
        packed.writestr("data/a.jpg", b"image")
        packed.writestr("data/b.txt", b"text" * 200)
        if inner:
            packed.writestr("data/inner.tar", inner)
    return file.getvalue()


def _expanded(kind: int, rng: random.Random) -> bytes:
    """Return an archive of members, or of headers, that are much larger than the archive."""
    count, size = 10 ** rng.randrange(4), rng.choice(LARGE)
    file = io.BytesIO()
    if kind == 0:
        method = rng.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
        with zipfile.ZipFile(file, "w", method) as packed:
            for i in range(count):
                packed.writestr(f"{i}{rng.choice((*SUFFIXES[:2], ''))}", bytes(size // count))
        return b"\0" + file.getvalue()
    member = tarfile.TarInfo("data/a.jpg")
    member.size = size // count
    member.type = rng.choice((tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.CONTTYPE))
    block = member.tobuf(tarfile.GNU_FORMAT) + bytes(member.size + -member.size % 512)
    return bytes([kind]) + PACK.get(kind, bytes)(block * count + bytes(1024))


def _with_checksums(content: bytes) -> bytes:
    """Return a tar in which the blocks that look like headers have valid checksums."""
    blocks = bytearray(content)
    for start in range(0, len(blocks) - 511, 512):
        header = blocks[start : start + 512]
        if header[257:262] == b"ustar":
            header[148:156] = b" " * 8
            blocks[start + 148 : start + 156] = b"%06o\0 " % sum(header)
    return bytes(blocks)
