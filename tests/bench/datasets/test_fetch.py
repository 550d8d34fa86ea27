"""Downloads, from a server on this machine only."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from filmtransfer.bench.datasets import DATASETS, fetch
from filmtransfer.bench.datasets.dataset import DatasetEntry, PublishedFile
from filmtransfer.errors import InputError, UnavailableError, UpdateFileError

CONTENT = {"/one.bin": b"one" * 1000, "/two.bin": b"two" * 2000}


class Server(BaseHTTPRequestHandler):
    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        content = CONTENT.get(self.path)
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing is printed while testing."""


@pytest.fixture
def server() -> Iterator[str]:
    Server.asked = []
    running = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{running.server_address[1]}"
    running.shutdown()
    running.server_close()
    thread.join()


def entry(server: str, **change: object) -> DatasetEntry:
    files = tuple(
        PublishedFile(
            path[1:],
            server + path,
            sha256=hashlib.sha256(c).hexdigest(),
            md5=hashlib.md5(c).hexdigest(),
            bytes=len(c),
        )
        for path, c in CONTENT.items()
    )
    made = DatasetEntry("tiny", "Tiny", 2, "https://example.org/tiny", "CC0", files, pytest.fail, free=True)
    return replace(made, **change)  # type: ignore[arg-type]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_missing_files_are_downloaded_and_checked(server, tmp_path):
    seen: list[tuple[str, int, int]] = []
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.bin").write_bytes(CONTENT["/one.bin"])
    paths = fetch(entry(server), tmp_path, progress=lambda *step: seen.append(step))
    assert paths == [tmp_path / "tiny" / "one.bin", tmp_path / "tiny" / "two.bin"]
    assert paths[1].read_bytes() == CONTENT["/two.bin"]
    assert Server.asked == ["/two.bin"]
    assert seen[-1] == ("two.bin", 6000, 6000)
    assert paths[1].stat().st_mode & 0o444 == 0o444


def test_an_existing_file_with_another_checksum_is_reported_and_kept(server, tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "one.bin").write_bytes(b"cut short")
    with pytest.raises(UpdateFileError, match=r"one\.bin is not the published file"):
        fetch(entry(server), tmp_path)
    assert (tmp_path / "tiny" / "one.bin").read_bytes() == b"cut short"


@pytest.mark.parametrize("kind", ["sha256", "md5"])
def test_a_wrong_checksum_removes_the_file_and_nothing_else(server, tmp_path, kind):
    good = entry(server)
    bad = replace(good.files[1], **{kind: "0" * 32})
    with pytest.raises(UpdateFileError, match=rf"two\.bin is not the published file: its {kind}"):
        fetch(replace(good, files=(good.files[0], bad)), tmp_path)
    assert names(tmp_path / "tiny") == ["one.bin"]
    assert fetch(good, tmp_path)[1].is_file()


def test_restricted_files_and_files_without_checksum_are_not_requested(server, tmp_path):
    with pytest.raises(UnavailableError, match="licence: CC0") as caught:
        fetch(entry(server, free=False), tmp_path)
    for words in ("one.bin, two.bin", "https://example.org/tiny", str(tmp_path / "tiny")):
        assert words in caught.value.hint
    with pytest.raises(UnavailableError, match="checksum is unknown"):
        fetch(entry(server, files=(PublishedFile("one.bin", f"{server}/one.bin"),)), tmp_path)
    assert Server.asked == []
    assert names(tmp_path) == []


def test_without_network_the_error_says_what_to_download(server, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{unused.getsockname()[1]}"
    for address in (closed, f"{server}/absent", "nonsense"):
        with pytest.raises(UnavailableError, match=r"one\.bin cannot be downloaded") as caught:
            fetch(entry(address), tmp_path)
        assert "https://example.org/tiny" in caught.value.hint
        assert caught.value.exit_code == 5
    assert names(tmp_path / "tiny") == []


def test_an_interrupted_download_leaves_nothing(server, tmp_path, monkeypatch):
    def cut(self: Server) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "3000")
        self.end_headers()
        self.wfile.write(b"one" * 10)
        self.close_connection = True

    monkeypatch.setattr(Server, "do_GET", cut)
    with pytest.raises((UpdateFileError, UnavailableError), match=r"one\.bin"):
        fetch(entry(server), tmp_path)
    assert names(tmp_path / "tiny") == []


def test_a_file_too_large_for_the_disk_is_not_requested(server, tmp_path):
    good = entry(server)
    with pytest.raises(InputError, match=r"one\.bin needs 10,000,000,000,000,000,000 bytes"):
        fetch(replace(good, files=(replace(good.files[0], bytes=10**19),)), tmp_path)
    assert Server.asked == []


def test_an_unwritable_data_folder(server, tmp_path):
    (tmp_path / "tiny").write_text("a file")
    with pytest.raises(InputError, match="is not writable"):
        fetch(entry(server), tmp_path)


def test_every_downloadable_file_has_a_checksum():
    for one in DATASETS.values():
        if one.free:
            assert all(file.url.startswith("http") for file in one.files), one.name
            assert all(file.sha256 or file.md5 for file in one.files), one.name
