"""Errors, exit codes and the start of the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
import torch
import typer

from filmtransfer import FewShotClassifier
from filmtransfer.cli import main
from filmtransfer.cli.app import command_line
from tests.cli.running import SMALL, run
from tests.conftest import picture


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
            ["train", str(photos), "--out", str(tmp / "y"), "--split", "x", *SMALL],
            2,
            "no_split",
        ),
        "unknown backbone": (["train", str(photos), *out, "--backbone", "x"], 2, "There is no backbone"),
        "unknown prior": (["train", str(photos), *out, "--prior", "x"], 2, "uniform, empirical"),
        "bad number": (["train", str(photos), *out, "--steps", "few"], 2, "not a valid int"),
        "negative steps": (["train", str(photos), "--out", str(tmp / "z"), "--steps", "-2"], 2, "at least 0"),
        "micro batch 0": (["train", str(photos), *out, "--micro-batch", "0"], 2, "at least 1"),
        "cache too small": (
            ["train", str(photos), "--out", str(tmp / "y"), "--cache-mb", "0.01", *SMALL],
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
        "cut update": (["predict", str(cut), str(photos)], 4, "not a complete update file"),
        "image as update": (["show", str(photos / "disc" / "0.png")], 4, "not an update file"),
        "unknown class": (
            ["evaluate", str(update), str(tmp / "strange")],
            3,
            "does not know the class zebra",
        ),
        "no image": (["predict", str(update), str(tmp / "no.jpg")], 3, "There is no file"),
        "empty image folder": (["predict", str(update), str(empty)], 3, "There are no images"),
        "show nothing": (["show"], 2, "Give an update file"),
        "show both": (["show", str(update), "--backbone", "resnet18"], 2, "Give an update file"),
        "plot of a backbone": (["show", "--backbone", "resnet18", "--plot", "x.png"], 2, "--plot"),
        "wrong weights": (
            ["predict", str(update), str(photos), "--weights", str(update), "--runtime", "torch"],
            4,
            "does not contain the weights",
        ),
    }


@pytest.mark.slow
def test_every_mistake_prints_one_line_and_has_its_exit_code(trained, capsys, tmp_path):
    photos, update = trained
    for name, (arguments, code, message) in mistakes(photos, update, tmp_path).items():
        got, out, err = run(capsys, *arguments)
        assert got == code, f"{name}: exit {got}, {err}"
        assert message in err, f"{name}: {err}"
        assert "Traceback" not in err, name
        assert out == "", name
        got, out, _ = run(capsys, *arguments, "--json")
        assert got == code
        assert json.loads(out)["error"]["exit_code"] == code, name
    assert not (tmp_path / "x.safetensors").exists()


def test_names_are_not_read_as_markup(capsys, tmp_path):
    root = tmp_path / "photos"
    for c, name in enumerate(("[cat]", "[bold]x[", ":smile:")):
        (root / name).mkdir(parents=True)
        for i in range(2):
            picture(c, 10 * c + i).save(root / name / f"[{i}].png")
    out = tmp_path / "x.safetensors"
    assert main(["train", str(root), "--out", str(out), "--steps", "0", *SMALL]) == 0
    capsys.readouterr()
    for arguments in (
        ["show", str(out)],
        ["evaluate", str(out), str(root)],
        ["predict", str(out), str(root)],
    ):
        code, text, err = run(capsys, *arguments)
        assert code == 0, err
        assert "[cat]" in text
        assert ":smile:" in text


def test_out_of_memory_names_the_options_that_help(capsys, monkeypatch, trained, tmp_path):
    def full(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(FewShotClassifier, "fit_images", full)
    code, _, err = run(capsys, "train", str(trained[0]), "--out", str(tmp_path / "x.safetensors"))
    assert code == 1
    assert "--micro-batch" in err
    assert "report" not in err


def test_debug_shows_the_traceback(tmp_path):
    from filmtransfer.errors import InputError

    with pytest.raises(InputError):
        main(["train", str(tmp_path / "none"), "--out", str(tmp_path / "x"), "--debug"])


def test_an_unexpected_error_is_called_a_bug(capsys, monkeypatch, trained):
    monkeypatch.setattr("filmtransfer.model.Update.load", lambda *_: 1 / 0)
    code, _, err = run(capsys, "show", str(trained[1]))
    assert code == 1
    assert "ZeroDivisionError" in err
    assert "--debug" in err
    assert "Traceback" not in err


def test_a_mistyped_command_is_suggested_once(capsys):
    code, _, err = run(capsys, "trian")
    assert code == 2
    assert err.count("Did you mean 'train'?") == 1
    code, _, err = run(capsys, "edit", "remov")
    assert code == 2
    assert err.count("Did you mean") == 1


def help_pages() -> dict[str, str]:
    """Return the help page of every command, by its name."""
    pages, open_groups = {}, {"fit": typer.main.get_command(command_line())}
    while open_groups:
        name, command = open_groups.popitem()
        open_groups |= {f"{name} {word}": one for word, one in getattr(command, "commands", {}).items()}
        pages[name] = command.get_help(click.Context(command, info_name=name))
    return pages


def test_help_pages_end_their_sentences():
    for name, page in help_pages().items():
        cut = [line for line in page.splitlines() if line.endswith(("...", "…"))]
        assert [line for line in cut if not line.startswith("Usage:")] == [], name


def test_help_pages_have_no_stray_backslashes():
    """Typer escapes the brackets of "[default: 0]" for rich, which does not print these pages."""
    pages = help_pages()
    assert [name for name, page in pages.items() if "\\[" in page] == []
    assert "[default: 1;" in pages["fit predict"]
    assert len(pages) > 20


@pytest.mark.process
@pytest.mark.parametrize("arguments", [["fit"], [sys.executable, "-m", "filmtransfer"]])
def test_the_installed_command_starts(arguments):
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [*arguments, "--help"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    for verb in ("demo", "train", "predict", "evaluate", "show", "backbones"):
        assert verb in done.stdout


@pytest.mark.process
def test_help_does_not_import_torch():
    code = "import sys; from filmtransfer.cli import main; main(['--help']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("False")


HANDLED = """
import ctypes
import filmtransfer.cli as cli

run_string = ctypes.pythonapi.PyRun_String  # what extension modules call while they are imported
run_string.restype, run_string.argtypes = ctypes.py_object, [ctypes.c_char_p, ctypes.c_int] + [ctypes.py_object] * 2

def main():
    try:
        run_string(b"raise KeyboardInterrupt", 257, globals(), globals())
    except KeyboardInterrupt:
        print("handled")
    return cli.INTERRUPTED

cli.main = main
END
"""


@pytest.mark.process
def test_an_interrupt_that_was_handled_does_not_end_the_process_by_the_signal(tmp_path):
    def ended(end: str) -> tuple[int, str]:
        (tmp_path / "handled.py").write_text(HANDLED.replace("END", end))
        done = subprocess.run(
            [sys.executable, "-m", "handled"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    assert ended("import sys; sys.exit(main())") == (-2, "handled\n"), "the interpreter's own way"
    assert ended("cli.run()") == (130, "handled\n")
