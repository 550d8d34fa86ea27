"""What the child process makes: an ONNX file, a page in a .zip file, a report; and its limits."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from filmtransfer.errors import InputError, UnavailableError
from filmtransfer.export import web
from filmtransfer.serve.make_download import (
    ERROR_FILE,
    MADE_FILE,
    REPORT_FILE,
    THUMBNAILS,
    UPDATE_FILE,
    make_onnx,
    make_report,
    make_web,
)
from tests.serve import updates
from tests.serve.updates import photo


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / UPDATE_FILE).write_bytes(updates.update(3, keep=True).to_bytes())
    (tmp_path / REPORT_FILE).write_text(json.dumps({"title": "mine"}))
    (tmp_path / THUMBNAILS).mkdir()
    return tmp_path


@pytest.mark.slow
def test_the_onnx_file_predicts_as_the_service_does(folder):
    make_onnx(folder, None)
    session = onnxruntime.InferenceSession((folder / MADE_FILE).read_bytes())
    engine = updates.engine()
    member = engine.member((folder / UPDATE_FILE).read_bytes())
    pixels = engine.pixels(photo(1, 5), member.spec)
    expected = dict(engine.answers([member], pixels[None])[0].classes)
    (made,) = session.run(["probabilities"], {"pixels": pixels[None]})
    names = ["bars of 3", "disc of 3", "plain of 3"]
    assert dict(zip(names, np.ravel(made).tolist(), strict=True)) == pytest.approx(expected, abs=1e-4)


@pytest.mark.slow
def test_the_page_is_one_zip_file(folder, monkeypatch, tmp_path):
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    for name in web.RUNTIME:
        (runtime / name).write_bytes(b"runtime")
    monkeypatch.setattr(web, "CACHED_RUNTIME", runtime)
    make_web(folder, None)
    with zipfile.ZipFile(folder / MADE_FILE) as archive:
        names = set(archive.namelist())
        page = archive.read("classifier/index.html").decode()
    assert {f"classifier/{name}" for name in ("index.html", "app.js", "model.onnx", "README.md")} <= names
    assert {f"classifier/ort/{name}" for name in web.RUNTIME} <= names
    assert "disc of 3" in page


def test_without_the_runtime_the_administrator_can_help(folder, monkeypatch):
    monkeypatch.setattr(web, "CACHED_RUNTIME", folder / "missing")
    monkeypatch.setattr(web, "download_runtime", pytest.fail)  # it is not downloaded here
    with pytest.raises(UnavailableError, match="cannot be made here") as caught:
        make_web(folder, None)
    assert "Ask the administrator to run 'fit export FILE --web FOLDER' once" in caught.value.hint


def test_the_report_shows_the_photos_that_are_stored(folder):
    support = updates.update(3, keep=True).support
    for digest in support.digests:
        (folder / THUMBNAILS / f"{digest}.jpg").write_bytes(photo(0, int(digest)))
    make_report(folder, None)
    page = (folder / MADE_FILE).read_text()
    assert "“mine”" in page
    assert "deleted" not in page
    (folder / THUMBNAILS / f"{support.digests[0]}.jpg").unlink()
    make_report(folder, None)
    assert "One of the training photos has been deleted since" in (folder / MADE_FILE).read_text()
    for file in (folder / THUMBNAILS).iterdir():
        file.unlink()
    make_report(folder, None)
    assert "photos that it was trained on are not stored any more" in (folder / MADE_FILE).read_text()


def test_without_statistics_there_is_no_report(folder):
    update = replace(updates.update(3), support=None)
    (folder / UPDATE_FILE).write_bytes(update.to_bytes())
    with pytest.raises(InputError, match="keeps no statistics"):
        make_report(folder, None)


@pytest.mark.process
def test_the_process_is_limited_and_reports_errors(folder):
    def run(*arguments: str) -> int:
        command = [sys.executable, *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            return process.wait(300)

    (folder / UPDATE_FILE).write_bytes(b"damaged")
    assert run("-m", "filmtransfer.serve.make_download", "report", str(folder)) == 4
    assert json.loads((folder / ERROR_FILE).read_text())["exit_code"] == 4
    limited = "from filmtransfer.serve import make_download as m\n"
    limited += "import sys; m.MAKERS['report'] = lambda *_: bytearray(900 * 2**20)\n"
    limited += f"sys.exit(m.main(['report', {str(folder)!r}, '--megabytes', '500', '--seconds', '60']))"
    assert run("-c", limited) == 5
    assert "more memory than this service allows" in (folder / ERROR_FILE).read_text()
    endless = "from filmtransfer.serve.make_download import limit_process\n"
    endless += "limit_process(1, None)\nwhile True: pass"
    assert run("-c", endless) < 0, "the system has ended it"
