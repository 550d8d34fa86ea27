"""Phases are named on a terminal and elsewhere, and Ctrl-C is answered at once."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys

import pytest
from rich.console import Console

from filmtransfer.cli.printing import Printer
from filmtransfer.cli.progress import PhaseDisplay, _bar, phases
from filmtransfer.training.callbacks import Progress
from tests.cli.running import SMALL


def test_without_a_terminal_each_phase_is_a_line(capsys):
    with phases() as display:
        display.phase("loading efficientnet_lite0")
        display.phase("loading efficientnet_lite0")
        display.phase("reading 40 photos")
        display.on_step(Progress(1, 30, 0.5, 0.9, 3.0))
    assert capsys.readouterr().err == "Loading efficientnet_lite0 …\nReading 40 photos …\n"


def test_quiet_processes_show_nothing(capsys):
    with phases(quiet=True) as display:
        display.phase("fine-tuning")
    assert capsys.readouterr() == ("", "")


def test_on_a_terminal_a_phase_has_its_steps_and_never_a_question_mark():
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=120)
    with _bar(console) as bar:
        display = PhaseDisplay(console, bar)
        for name in ("loading efficientnet_lite0", "fine-tuning"):
            display.phase(name)
            bar.refresh()
        display.on_step(Progress(3, 30, 0.5, 0.9, 12.0))
        bar.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.getvalue())
    assert "Loading efficientnet_lite0" in shown
    assert re.search(r"Fine-tuning.*step 3/30  loss 0\.500  accuracy 90%  12 s left", shown)
    assert "?" not in shown
    assert "nan" not in shown


class Terminal(io.StringIO):
    """Both streams of a command."""

    def isatty(self) -> bool:
        return True


def test_what_is_printed_never_shares_a_line_with_the_bar(monkeypatch):
    """Stdout is another console than the bar's, so rich does not know that both are one terminal."""
    terminal = Terminal()
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, terminal)
    monkeypatch.setenv("TERM", "xterm")
    printer = Printer(as_json=False)
    with phases() as display:
        display.phase("writing")
        for text in ("5 classes, 40 photos", "Wrote x.safetensors"):
            printer.say(text)
            display.phase(f"phase after {text}")
    written = terminal.getvalue()
    assert "Writing" in written
    for text in ("5 classes, 40 photos", "Wrote x.safetensors"):
        before = written[: written.index(f"{text}\n")]
        line = before[before.rindex("\x1b[2K") :]  # since the line was erased
        assert "Writing" not in line
        assert "━" not in line


def interrupted_in(phase: str) -> None:
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)  # however the suite was started
    try:
        with phases() as display:
            display.phase(phase)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        handler = signal.signal(signal.SIGINT, previous)
    assert handler is signal.default_int_handler, "the display has removed its own"


def test_ctrl_c_while_fine_tuning_says_what_is_kept(capsys):
    with pytest.raises(KeyboardInterrupt):
        interrupted_in("fine-tuning")
    assert "what was trained so far is kept" in capsys.readouterr().err


def test_ctrl_c_in_another_phase_is_left_to_the_command(capsys):
    with pytest.raises(KeyboardInterrupt):
        interrupted_in("assessing")
    assert capsys.readouterr().err == "Assessing …\n"


@pytest.mark.process(seconds=10)
def test_ctrl_c_while_modules_are_loaded_is_one_line(trained, tmp_path):
    """The first phase is shown before torch is imported; Ctrl-C then ends the command with a word and 130."""
    photos, _ = trained
    arguments = ["train", str(photos), "--out", str(tmp_path / "x.safetensors"), *SMALL]
    process = subprocess.Popen(
        [sys.executable, "-m", "filmtransfer", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr.readline() == "Loading efficientnet_lite0 …\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "fit: Interrupted.\n")
    assert list(tmp_path.iterdir()) == []
