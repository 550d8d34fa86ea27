"""The command as a user types it: output, files, exit codes, one clear line for each mistake."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from filmtransfer import FewShotClassifier
from filmtransfer.cli import main
from tests.conftest import picture
from tests.data.test_pixels import broken

FAST = ["--image-size", "64", "--train-size", "48"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("photos here")
    for c, name in enumerate(("disc", "bars", "plain")):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(4):
            picture(c, 10 * c + i).save(root / "photos" / name / f"{i}.png")
    out = root / "update.safetensors"
    assert main(["train", str(root / "photos"), "--out", str(out), "--steps", "2", *FAST]) == 0
    return root / "photos", out


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def width(picture: str | Path) -> int:
    with Image.open(picture) as image:
        return image.width


def document(capsys, *words: str) -> dict:
    code, out, err = run(capsys, *words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_train_predict_evaluate_show(trained, capsys, tmp_path):
    photos, update = trained
    made = document(
        capsys, "train", str(photos), "--out", str(tmp_path / "a.safetensors"), "--steps", "2", *FAST
    )
    assert made["steps"] == 2
    assert made["classes"] == {"bars": 4, "disc": 4, "plain": 4}
    assert made["bytes"] == (tmp_path / "a.safetensors").stat().st_size
    assert (tmp_path / "a.safetensors").read_bytes() == update.read_bytes(), "one seed, one file"

    found = document(capsys, "predict", str(update), str(photos / "disc"), str(photos / "bars" / "0.png"))
    assert [p["class"] for p in found["predictions"]] == ["disc"] * 4 + ["bars"]
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


def test_text_output_tells_the_same(trained, capsys):
    photos, update = trained
    code, out, _ = run(capsys, "predict", str(update), str(photos / "plain" / "0.png"))
    assert code == 0
    assert "plain" in out
    assert "%" in out
    code, out, _ = run(capsys, "evaluate", str(update), str(photos))
    assert "accuracy 100.0% on 12 images" in out
    code, out, _ = run(capsys, "show", str(update))
    assert "19,936 of them FiLM" in out
    assert "efficientnet_lite0" in out


def test_command_and_python_give_the_same_prediction(trained, capsys):
    photos, update = trained
    files = sorted((photos / "disc").iterdir())
    by_command = document(capsys, "predict", str(update), *map(str, files), "--top", "3")["predictions"]
    clf = FewShotClassifier.load(update)
    for row, chances in zip(by_command, clf.predict_proba(files), strict=True):
        assert [c["p"] for c in row["probabilities"]] == sorted(chances.tolist(), reverse=True)


def test_profile_says_where_the_time_goes(trained, capsys, tmp_path):
    photos, _ = trained
    words = [
        "train",
        str(photos),
        "--out",
        str(tmp_path / "p.safetensors"),
        "--steps",
        "3",
        *FAST,
        "--profile",
    ]
    made = document(capsys, *words, "--film-from", "4")
    assert made["profile"]["steps"] == 3
    assert made["profile"]["by_phase"]["query: backward"] > 0
    _, out, _ = run(capsys, *words)
    for line in ("a step, by phase", "support: forward", "by kind of arithmetic", "done once"):
        assert line in out
    shown = document(capsys, "show", str(tmp_path / "p.safetensors"), "--plot", str(tmp_path / "p.png"))
    assert shown["film_numbers"] == 19_936
    made = document(capsys, *words, "--film-from", "8")
    shown = document(capsys, "show", str(tmp_path / "p.safetensors"), "--plot", str(tmp_path / "p.png"))
    assert shown["film_numbers"] == 2_560


def test_the_stages_of_a_backbone(capsys):
    stages = document(capsys, "show", "--backbone", "bit_m_r50x1")["stages"]
    assert [s["film_from"] for s in stages] == [11_648, 11_648, 11_264, 10_240, 7_168, 4_096]
    assert sum(s["sites"] for s in stages) == 17


def test_out_of_memory_is_said(capsys, monkeypatch, trained, tmp_path):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(FewShotClassifier, "fit_images", full)
    code, _, err = run(capsys, "train", str(trained[0]), "--out", str(tmp_path / "x.safetensors"))
    assert code == 1
    assert "--micro-batch" in err
    assert "report" not in err


def test_the_papers_table_for_any_backbone(capsys):
    found = document(capsys, "show", "--backbone", "bit_m_r50x1", "--classes", "10")
    counts = {row["method"]: row["updateable"] for row in found["methods"]}
    assert counts == {
        "full fine-tuning (BiT)": 23_520_832,
        "FiT-QDA": 21_013_891,
        "FiT-LDA": 32_140,
        "FiT-ProtoNets": 32_128,
    }


def test_backbones_are_listed(capsys):
    rows = {row["name"]: row for row in document(capsys, "backbones")["backbones"]}
    assert rows["efficientnet_lite0"]["usable"] is True
    assert rows["bit_m_r50x1"]["film_numbers"] == 11_648
    assert rows["regnety_008"]["licence"] == "MIT"


def test_a_qda_update_reports_both_counts(trained, capsys, tmp_path):
    photos, _ = trained
    out = tmp_path / "q.safetensors"
    document(capsys, "train", str(photos), "--out", str(out), "--head", "qda", "--steps", "0", *FAST)
    shown = document(capsys, "show", str(out))
    assert shown["updateable_numbers"] == 19_936 + 3 * 1280 + 3 * 1280 * 1281 // 2 + 3
    assert shown["stored_numbers"] == 19_936 + 12 * 1280 + 1280 + 12 + 3


def test_broken_images_are_listed_and_strict_refuses(trained, capsys, tmp_path):
    photos, update = trained
    files = [p for p in broken(tmp_path).values() if p.exists()]
    good = photos / "disc" / "0.png"
    code, out, err = run(capsys, "predict", str(update), str(good), *map(str, files), "--json")
    found = json.loads(out)
    assert code == 0
    assert len(found["predictions"]) == 1
    assert {Path(s["image"]).name for s in found["skipped"]} == {f.name for f in files}
    assert err.count("skipped: ") == len(files)
    code, _, err = run(capsys, "predict", str(update), str(good), *map(str, files), "--strict")
    assert code == 3
    assert "cannot be used" in err


def mistakes(photos: Path, update: Path, tmp: Path) -> dict[str, tuple[list[str], int, str]]:
    empty, one = tmp / "empty", tmp / "one"
    empty.mkdir()
    (one / "only").mkdir(parents=True)
    picture(0, 1).save(one / "only" / "1.png")
    broken_class = tmp / "broken"
    for name in ("a", "b"):
        (broken_class / name).mkdir(parents=True)
        (broken_class / name / "1.jpg").write_bytes(b"text")
    cut = tmp / "cut.safetensors"
    cut.write_bytes(update.read_bytes()[:900])
    (tmp / "strange" / "zebra").mkdir(parents=True)
    picture(0, 1).save(tmp / "strange" / "zebra" / "1.png")
    out = ["--out", str(tmp / "x.safetensors"), "--steps", "0"]
    no_gpu = (2, "no CUDA device 99") if torch.cuda.is_available() else (5, "no cuda device")
    return {
        "no folder": (["train", str(tmp / "none"), *out], 3, "There is no folder"),
        "empty folder": (["train", str(empty), *out], 3, "No images in subfolders"),
        "one class": (["train", str(one), *out], 3, "only one class"),
        "unreadable class": (["train", str(broken_class), *out], 3, "None of the images of a, b"),
        "no out folder": (["train", str(photos), "--out", str(tmp / "no" / "x")], 3, "There is no folder"),
        "out is a folder": (["train", str(photos), "--out", str(tmp)], 3, "is a folder"),
        "unknown head": (["train", str(photos), *out, "--head", "svm"], 2, "lda, qda, protonets, linear"),
        "unknown preset": (["train", str(photos), *out, "--preset", "x"], 2, "fast, paper"),
        "unknown split": (
            ["train", str(photos), "--out", str(tmp / "y"), "--split", "x", *FAST],
            2,
            "no_split",
        ),
        "unknown backbone": (["train", str(photos), *out, "--backbone", "x"], 2, "No backbone"),
        "unknown prior": (["train", str(photos), *out, "--prior", "x"], 2, "uniform, empirical"),
        "bad number": (["train", str(photos), *out, "--steps", "few"], 2, "not a valid int"),
        "negative steps": (["train", str(photos), "--out", str(tmp / "z"), "--steps", "-2"], 2, "at least 0"),
        "micro batch 0": (["train", str(photos), *out, "--micro-batch", "0"], 2, "at least 1"),
        "cache too small": (
            ["train", str(photos), "--out", str(tmp / "y"), "--cache-mb", "0.01", *FAST],
            2,
            "too small for one image",
        ),
        "stage not there": (["train", str(photos), *out, "--film-from", "12"], 2, "film_from is 0 to 8"),
        "no such device": (["train", str(photos), *out, "--device", "toaster"], 2, "auto, cpu, cuda"),
        "no such GPU": (["predict", str(update), str(photos), "--device", "cuda:99"], *no_gpu),
        "no threads": (["train", str(photos), *out, "--threads", "0"], 2, "threads"),
        "unknown option": (["train", str(photos), *out, "--speed", "9"], 2, "No such option"),
        "unknown verb": (["trane"], 2, "No such command"),
        "offline backbone": (["train", str(photos), *out, "--backbone", "bit_m_r50x1"], 5, "--weights FILE"),
        "missing update": (["predict", str(tmp / "no.safetensors"), str(photos)], 4, "cannot be read"),
        "cut update": (["predict", str(cut), str(photos)], 4, "not a whole update file"),
        "image as update": (["show", str(photos / "disc" / "0.png")], 4, "not a whole update file"),
        "unknown class": (
            ["evaluate", str(update), str(tmp / "strange")],
            3,
            "does not know the class zebra",
        ),
        "no image": (["predict", str(update), str(tmp / "no.jpg")], 3, "there is no such file"),
        "empty image folder": (["predict", str(update), str(empty)], 3, "There are no images"),
        "show nothing": (["show"], 2, "Give an update file"),
        "show both": (["show", str(update), "--backbone", "resnet18"], 2, "Give an update file"),
        "plot of a backbone": (["show", "--backbone", "resnet18", "--plot", "x.png"], 2, "--plot"),
        "wrong weights": (
            ["predict", str(update), str(photos), "--weights", str(update)],
            4,
            "does not contain the weights",
        ),
    }


def test_every_mistake_has_its_line_and_its_code(trained, capsys, tmp_path):
    photos, update = trained
    for name, (words, code, says) in mistakes(photos, update, tmp_path).items():
        got, out, err = run(capsys, *words)
        assert got == code, f"{name}: exit {got}, {err}"
        assert says in err, f"{name}: {err}"
        assert "Traceback" not in err, name
        assert out == "", name
        got, out, _ = run(capsys, *words, "--json")
        assert got == code
        assert json.loads(out)["error"]["exit_code"] == code, name
    assert not (tmp_path / "x.safetensors").exists()


def test_names_are_names_and_not_markup(capsys, tmp_path):
    root = tmp_path / "photos"
    for c, name in enumerate(("[cat]", "[bold]x[", ":smile:")):
        (root / name).mkdir(parents=True)
        for i in range(2):
            picture(c, 10 * c + i).save(root / name / f"[{i}].png")
    out = tmp_path / "x.safetensors"
    assert main(["train", str(root), "--out", str(out), "--steps", "0", *FAST]) == 0
    capsys.readouterr()
    for words in (["show", str(out)], ["evaluate", str(out), str(root)], ["predict", str(out), str(root)]):
        code, text, err = run(capsys, *words)
        assert code == 0, err
        assert "[cat]" in text
        assert ":smile:" in text


@pytest.mark.slow(seconds=40)
def test_the_demo_is_the_main_job(capsys, tmp_path):
    found = document(capsys, "demo", "--out", str(tmp_path / "out"))
    assert found["held_out"] == 1080
    assert found["before"]["interval"][0] > 0.5
    assert found["after"]["accuracy"] > found["before"]["accuracy"] - 0.02
    assert found["bytes"] < 165_000  # four bytes a number, one for each class and feature, and the metadata
    assert FewShotClassifier.load(found["file"]).update_.classes == found["classes"]
    assert width(found["picture"]) > 1000


def test_debug_shows_the_traceback(tmp_path):
    from filmtransfer.errors import InputError

    with pytest.raises(InputError):
        main(["train", str(tmp_path / "none"), "--out", str(tmp_path / "x"), "--debug"])


def test_a_bug_is_called_a_bug(capsys, monkeypatch, trained):
    monkeypatch.setattr("filmtransfer.model.Update.load", lambda *_: 1 / 0)
    code, _, err = run(capsys, "show", str(trained[1]))
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "--debug" in err
    assert "Traceback" not in err


@pytest.mark.process
@pytest.mark.parametrize("words", [["fit"], [sys.executable, "-m", "filmtransfer"]])
def test_the_installed_command_starts(words):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([*words, "--help"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    for verb in ("demo", "train", "predict", "evaluate", "show", "backbones"):
        assert verb in done.stdout


@pytest.mark.process(seconds=10)
def test_progress_bar_and_ctrl_c_in_a_real_terminal(trained, tmp_path):
    """A real process on a real terminal: a bar with loss, accuracy and time left; SIGINT leaves a usable file."""
    import pty
    import signal
    import time

    photos, _ = trained
    out = tmp_path / "stopped.safetensors"
    words = ["train", str(photos), "--out", str(out), "--steps", "100000", "--json", *FAST]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "filmtransfer", *words], stdout=subprocess.PIPE, stderr=slave, text=True
    )
    os.close(slave)
    shown, deadline = "", time.monotonic() + 120
    while not re.search(r"[3-9]/100000 loss \d", shown) and time.monotonic() < deadline:
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


@pytest.mark.process
def test_help_does_not_wait_for_torch():
    code = "import sys; from filmtransfer.cli import main; main(['--help']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("False")
