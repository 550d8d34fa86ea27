"""Archives that expand to too much: counted while they are unpacked, refused with one error, and nothing is left."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from filmtransfer.bench.datasets import archives
from filmtransfer.bench.datasets.unpacked import find_unzipped
from filmtransfer.errors import UpdateFileError
from tests.bench.datasets.archive_builders import tar, zipped

SMALL = 1_000_000  # bytes that archives may expand to in these tests
ZEROS = bytes(SMALL)


@pytest.fixture(autouse=True)
def small_limit(monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED_SMALL", SMALL)


def refuse(file: Path, message: str = "expands to more than 1.0 MB") -> None:
    before = set(file.parent.rglob("*"))
    with pytest.raises(UpdateFileError, match=message):
        archives.unpack([file], file.parent / "out")
    assert set(file.parent.rglob("*")) == before


def content(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """Return a tar with members as they are, also with a type for which Python writes no data."""
    blocks = b""
    for member, data in members:
        member.size = len(data)
        blocks += member.tobuf(tarfile.GNU_FORMAT) + data + bytes(-len(data) % 512)
    return blocks + bytes(1024)


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_is_charged_for_what_its_members_expand_to(tmp_path, method):
    for sizes, fits in (((SMALL,), True), ((SMALL // 2, SMALL // 2 + 1), False)):
        file = tmp_path / "x.zip"
        with zipfile.ZipFile(file, "w", method) as packed:
            for i, size in enumerate(sizes):
                packed.writestr(f"{i}.bin", bytes(size))
        if fits:
            assert (archives.unpack([file], tmp_path / "in") / "0.bin").stat().st_size == SMALL
        else:
            refuse(file)


def test_members_of_a_zip_that_share_their_bytes_are_charged_each(tmp_path):
    file = tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a", bytes(SMALL // 2))
        for name in "bc":
            info = zipfile.ZipInfo(name)
            for field in ("compress_type", "CRC", "compress_size", "file_size", "header_offset", "flag_bits"):
                setattr(info, field, getattr(packed.infolist()[0], field))
            packed.filelist.append(info)
    refuse(file)


@pytest.mark.parametrize(("mode", "suffix"), [("w:gz", "gz"), ("w:bz2", "bz2"), ("w:xz", "xz")])
def test_a_compressed_tar_is_charged_while_it_is_expanded(tmp_path, mode, suffix):
    fits = tar(tmp_path / f"fits.tar.{suffix}", {"a": bytes(SMALL // 2)}, mode)
    assert (archives.unpack([fits], tmp_path / "in") / "a").stat().st_size == SMALL // 2
    refuse(tar(tmp_path / f"x.tar.{suffix}", {"a": bytes(SMALL // 2), "b": bytes(SMALL // 2)}, mode))


def test_a_large_archive_may_expand_to_a_hundred_times_its_size(tmp_path, monkeypatch):
    file = zipped(tmp_path / "x.zip", {"a": ZEROS, "b": ZEROS})
    monkeypatch.setattr(archives, "MAX_UNPACKED_RATIO", 2 * SMALL // file.stat().st_size + 1)
    archives.unpack([file], tmp_path / "in")
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", SMALL)
    refuse(file)


def test_inner_archives_share_the_budget_of_the_outer_one(tmp_path):
    inner = zipped(tmp_path / "inner" / "x.zip", {"a": bytes(SMALL // 3)}).read_bytes()
    fits = zipped(tmp_path / "fits.zip", {f"{i}/x.zip": inner for i in range(2)})
    archives.unpack([fits], tmp_path / "in")
    refuse(zipped(tmp_path / "outer.zip", {f"{i}/x.zip": inner for i in range(4)}))


def test_what_a_tar_does_not_extract_is_charged_too(tmp_path):
    file = tmp_path / "x.tar.gz"
    file.write_bytes(gzip.compress(content((member("b"), b"1")) + ZEROS))
    refuse(file)


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_a_header_of_a_tar_is_not_read_beyond_its_limit(tmp_path, compress):
    """Names can be as long as the member that contains them."""
    file = tmp_path / "x.tar.gz"
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
        file.write_bytes(compress(content((member("name", kind), bytes(64 * SMALL)), (member("b"), b"1"))))
        tracemalloc.start()
        refuse(file, "header of a member is too long")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 20 * SMALL


def test_hard_links_to_what_is_not_there_are_charged_for_what_they_copy(tmp_path):
    data = bytes(SMALL // 10)
    links = [(member(f"{i}", tarfile.LNKTYPE, "a"), b"") for i in range(20)]
    file = tmp_path / "x.tar.gz"
    file.write_bytes(gzip.compress(content((member("a"), data), *links)))
    assert len(list(archives.unpack([file], tmp_path / "in").iterdir())) == 21
    copies = [(member(f"{i}", tarfile.LNKTYPE, "missing/../a"), b"") for i in range(20)]
    file.write_bytes(gzip.compress(content((member("a"), data), *copies)))
    refuse(file)


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_members_are_counted(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr(archives, "MAX_ARCHIVE_MEMBERS", 3)
    members = {str(i): b"" for i in range(4)}
    file = tmp_path / f"x{suffix}"
    refuse(zipped(file, members) if suffix == ".zip" else tar(file, members, "w"), "more than 3 files")


def test_a_single_compressed_file_is_charged(tmp_path):
    (tmp_path / "values.gz").write_bytes(gzip.compress(ZEROS))
    assert find_unzipped(tmp_path, "values").stat().st_size == SMALL
    (tmp_path / "more.gz").write_bytes(gzip.compress(ZEROS + b"1"))
    with pytest.raises(UpdateFileError, match="expands to more than"):
        find_unzipped(tmp_path, "more")
    assert not (tmp_path / "more").exists()


def test_a_plain_tar_with_the_name_of_a_compressed_one_is_read(tmp_path):
    file = tar(tmp_path / "x.tar.gz", {"a": b"1"}, "w")
    assert (archives.unpack([file], tmp_path / "in") / "a").read_bytes() == b"1"
