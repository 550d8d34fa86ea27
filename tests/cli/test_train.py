"""fit train: the update, its report, the progress bar and the profile."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

from filmtransfer import FewShotClassifier
from tests.cli.running import SMALL, document, run, width
from tests.conftest import picture


def test_train_predict_evaluate_show(trained, capsys, tmp_path):
    photos, update = trained
    result = document(
        capsys, "train", str(photos), "--out", str(tmp_path / "a.safetensors"), "--steps", "2", *SMALL
    )
    assert result["steps"] == 2
    assert result["classes"] == {"bars": 4, "disc": 4, "plain": 4}
    assert result["bytes"] == (tmp_path / "a.safetensors").stat().st_size
    assert (tmp_path / "a.safetensors").read_bytes() == update.read_bytes(), "one seed, one file"

    predicted = document(capsys, "predict", str(update), str(photos / "disc"), str(photos / "bars" / "0.png"))
    assert [p["class"] for p in predicted["predictions"]] == ["disc"] * 4 + ["bars"]
    best = document(capsys, "predict", str(update), str(photos / "disc" / "0.png"), "--top", "3")
    assert sum(c["p"] for c in best["predictions"][0]["probabilities"]) == pytest.approx(1)

    measured = document(capsys, "evaluate", str(update), str(photos))
    assert measured["accuracy"] == 1.0
    assert measured["interval"][0] < 1.0
    assert np.trace(measured["confusion"]) == 12

    shown = document(capsys, "show", str(update), "--plot", str(tmp_path / "film.png"))
    assert shown["film_parameters"] == 19_936, "the fast preset begins at stage 3 of this backbone"
    assert shown["film_numbers"] == 19_936, "the former key"
    assert shown["updateable_parameters"] == shown["stored_parameters"] == 19_936 + 3 * 1281 + 2
    assert shown["relative_update_size"] == pytest.approx((19_936 + 3 * 1281 + 2) / (3_371_008 + 3 * 1280))
    assert width(tmp_path / "film.png") > 600


def test_options_of_the_head(trained, capsys, tmp_path):
    photos, _ = trained
    arguments = [
        "train",
        str(photos),
        "--out",
        str(tmp_path / "a.safetensors"),
        "--head",
        "qda",
        "--steps",
        "0",
        *SMALL,
    ]
    document(capsys, *arguments, "--head-options", '{start = "paper"}')
    weights = document(capsys, "show", str(tmp_path / "a.safetensors"))["covariance_weights"]
    assert weights == pytest.approx([0.5, 0.5, 1.0])
    for options, message in (
        ("{start = [0.5, 1.0]}", "start cannot be"),
        ("3", "is not a table"),
        ("{x = 1}", "no option"),
    ):
        code, _, err = run(capsys, *arguments, "--head-options", options)
        assert (code, message in err) == (2, True), err


@pytest.mark.slow
def test_the_profile_lists_phases_and_operations(trained, capsys, tmp_path):
    photos, _ = trained
    arguments = [
        "train",
        str(photos),
        "--out",
        str(tmp_path / "p.safetensors"),
        "--steps",
        "3",
        *SMALL,
        "--profile",
    ]
    result = document(capsys, *arguments, "--film-from", "4")
    assert result["profile"]["steps"] == 3
    assert result["profile"]["by_phase"]["query: backward"] > 0
    _, out, _ = run(capsys, *arguments)
    for line in ("a step, by phase", "support: forward", "by kind of operation", "once"):
        assert line in out
    shown = document(capsys, "show", str(tmp_path / "p.safetensors"), "--plot", str(tmp_path / "p.png"))
    assert shown["film_numbers"] == 19_936
    result = document(capsys, *arguments, "--film-from", "8")
    shown = document(capsys, "show", str(tmp_path / "p.safetensors"), "--plot", str(tmp_path / "p.png"))
    assert shown["film_numbers"] == 2_560


@pytest.mark.process(seconds=10)
def test_progress_bar_and_ctrl_c_in_a_real_terminal(trained, tmp_path):
    """A real process on a real terminal: a bar with loss, accuracy and time left; SIGINT leaves a usable file."""
    import pty
    import signal
    import time

    photos, _ = trained
    out = tmp_path / "stopped.safetensors"
    arguments = ["train", str(photos), "--out", str(out), "--steps", "100000", "--json", *SMALL]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "filmtransfer", *arguments], stdout=subprocess.PIPE, stderr=slave, text=True
    )
    os.close(slave)
    shown, deadline = "", time.monotonic() + 120
    while not re.search(r"[3-9]/100000 +loss \d", shown) and time.monotonic() < deadline:
        shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", os.read(master, 4096).decode(errors="ignore"))
    process.send_signal(signal.SIGINT)
    reader = threading.Thread(target=_drain, args=(master,), daemon=True)
    reader.start()
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert re.search(r"loss \d+\.\d+ +accuracy \d+% +[\d.]+ (s|min|h) left", shown)
    assert json.loads(text)["stopped"] == "interrupted"
    assert FewShotClassifier.load(out).update_.results["steps"] > 0


def _drain(terminal: int) -> None:
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:  # the other end is gone
        pass


def test_the_file_can_be_edited_unless_it_is_compact(trained, capsys, tmp_path):
    photos, _ = trained
    train = ["train", photos, "--out", tmp_path / "x.safetensors", "--steps", "0", "--no-report", *SMALL]
    code, out, _ = run(capsys, *train)
    assert code == 0
    assert "No fine-tuning: the backbone is as it was pretrained." in out
    assert "keeps the features and names of 12 photos" in out
    assert "'fit edit strip'" in out
    complete = document(capsys, *train)
    assert complete["bytes"] == (tmp_path / "x.safetensors").stat().st_size
    assert run(capsys, "edit", "remove", tmp_path / "x.safetensors", "disc")[0] == 0
    compact = document(capsys, *train, "--compact")
    assert compact["bytes"] == complete["compact_bytes"] < complete["bytes"]
    assert compact["parameters"] == complete["parameters"]


def test_training_writes_a_report_beside_the_update(reported):
    page = (reported / "a.report.html").read_text()
    assert "13 photos" in page
    assert "disc/wrong.png" in page.split('id="label-issues"')[1].split("</section>")[0]
    assert str(reported) not in page, "names without the path"


@pytest.mark.slow
def test_reports_are_written_to_the_given_path_or_not_at_all(reported, capsys, tmp_path):
    train = ["train", reported / "photos", "--out", tmp_path / "b.safetensors", *SMALL, "--steps", "0"]
    code, out, err = run(capsys, *train, "--report", tmp_path / "page.html", "--json")
    assert code == 0, err
    assert json.loads(out)["report"] == str(tmp_path / "page.html")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["b.safetensors", "page.html"]
    code, out, _ = run(capsys, *train, "--no-report", "--json")
    assert json.loads(out)["report"] is None
    assert sorted(f.name for f in tmp_path.iterdir()) == ["b.safetensors", "page.html"]
    assert (tmp_path / "b.safetensors").read_bytes() != b""


def test_an_unwritable_report_is_refused_before_training(reported, capsys, tmp_path):
    out = tmp_path / "c.safetensors"
    code, _, err = run(
        capsys, "train", reported / "photos", "--out", out, "--report", tmp_path / "no" / "r.html"
    )
    assert code == 3
    assert "There is no folder" in err
    code, _, err = run(capsys, "train", reported / "photos", "--out", out, "--report", out)
    assert code == 2
    assert "cannot be the same file" in err
    assert not out.exists()


def test_one_photo_of_each_class_has_a_report_too(capsys, tmp_path):
    for c, name in enumerate(("disc", "bars")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        picture(c, c).save(tmp_path / "photos" / name / "0.png")
    code, _, err = run(
        capsys, "train", tmp_path / "photos", "--out", tmp_path / "d.safetensors", *SMALL, "--steps", "0"
    )
    assert code == 0, err
    assert "Its accuracy is unknown" in (tmp_path / "d.report.html").read_text()


@pytest.mark.parametrize("arguments", [["--head", "linear"], ["--head", "protonets"], ["--head", "qda"]])
def test_every_head_has_a_report(reported, capsys, tmp_path, arguments):
    code, _, err = run(
        capsys,
        "train",
        reported / "photos",
        "--out",
        tmp_path / "e.safetensors",
        *SMALL,
        "--steps",
        "0",
        *arguments,
    )
    assert code == 0, err
    assert "Would more photos help?" in (tmp_path / "e.report.html").read_text()


def test_a_skipped_photo_is_named_once(trained, capsys, tmp_path):
    photos = tmp_path / "photos"
    shutil.copytree(trained[0], photos)
    (photos / "disc" / "broken.png").write_text("no image")
    _, _, err = run(capsys, "train", photos, "--out", tmp_path / "x.safetensors", "--steps", "0", *SMALL)
    assert err.count("broken.png") == 1
    assert "skipped: " in err
