"""What a training run reports: callbacks, log records, and lines on stderr."""

from __future__ import annotations

import logging
from io import StringIO

import numpy as np
import pytest

from filmtransfer import Callbacks, FewShotClassifier, Progress
from filmtransfer.training.progress import ProgressLines, Reporter
from tests.conftest import picture

IMAGES = [np.asarray(picture(i % 2, i)) for i in range(8)]
LABELS = ["disc", "bars"] * 4
PHASES = ["loading efficientnet_lite0", "reading 8 photos", "computing activations", "fine-tuning", "choosing the interpolation factor", "assessing"]  # fmt: skip


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def steps(number: int) -> list[Progress]:
    return [Progress(step, number, 1 / step, 0.5, number - step) for step in range(1, number + 1)]


def train(callbacks: Callbacks | None = None, **options) -> FewShotClassifier:
    clf = FewShotClassifier(**({"steps": 2, "image_size": 32, "train_size": 32} | options))
    return clf.fit(IMAGES, LABELS, **({} if callbacks is None else {"callbacks": callbacks}))


def test_it_is_silent_by_default(capfd):
    train()
    assert capfd.readouterr() == ("", "")


def test_verbose_prints_phases_progress_and_the_result_on_stderr(capfd):
    train(verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line for line in lines if line in PHASES] == PHASES
    assert [line.partition("  ")[0] for line in lines[4:6]] == ["step 1/2", "step 2/2"]
    assert lines[-1].startswith("trained 2 classes on 8 photos. Leave-one-out accuracy")


def test_phases_and_results_are_logged_steps_with_debug(caplog, capfd):
    with caplog.at_level(logging.INFO, "filmtransfer"):
        train()
    messages = [record.getMessage() for record in caplog.records]
    assert messages[:-1] == PHASES
    assert messages[-1].startswith("trained 2 classes")
    assert {(record.name, record.levelname) for record in caplog.records} == {("filmtransfer", "INFO")}
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "filmtransfer"):
        train()
    assert [r.getMessage()[:20] for r in caplog.records if r.levelno == logging.DEBUG] == [
        "fine-tuning step 1/2",
        "fine-tuning step 2/2",
    ]
    assert capfd.readouterr().err == "", "the logger has a handler that writes nothing"


def test_the_package_has_one_silent_handler():
    assert [type(handler) for handler in logging.getLogger("filmtransfer").handlers] == [logging.NullHandler]


def test_callbacks_are_called_beside_verbose(capfd):
    phases: list[str] = []
    seen: list[Progress] = []
    fitted: list[int] = []
    callbacks = Callbacks(
        on_phase=phases.append, on_step=seen.append, on_fitted=lambda loaded, adapted: fitted.append(len(loaded.labels))
    )  # fmt: skip
    train(callbacks, verbose=1)
    assert (phases, fitted) == (PHASES, [8])
    assert [(progress.step, progress.steps) for progress in seen] == [(1, 2), (2, 2)]
    assert "fine-tuning" in capfd.readouterr().err


def test_what_a_callback_raises_ends_the_run():
    def stop(_: object) -> None:
        raise RuntimeError("enough")

    for callbacks in (
        Callbacks(on_phase=stop),
        Callbacks(on_step=stop),
        Callbacks(on_fitted=lambda *_: stop(0)),
    ):
        with pytest.raises(RuntimeError, match="enough"):
            train(callbacks)


def test_no_step_is_observed_if_nobody_asks():
    assert Reporter(Callbacks()).callbacks.on_step is None


def screen(written: str) -> list[str]:
    """Return what a terminal shows."""
    lines = []
    for line in written.split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :]
        lines.append(shown.rstrip())
    return lines


def test_a_terminal_has_one_line_of_progress():
    stream = Terminal()
    lines = ProgressLines(stream)
    lines.line("fine-tuning")
    for progress in steps(120):  # the time that is left has three digits first, then one
        lines.on_step(progress)
    assert screen(stream.getvalue())[1] == "step 120/120  loss 0.008  accuracy 50%  0 s left"
    lines.line("assessing")
    assert screen(stream.getvalue())[2:] == ["assessing", ""]


@pytest.mark.parametrize(("number", "printed"), [(3, 3), (30, 10), (400, 10)])
def test_a_file_has_ten_lines_at_most(number, printed):
    stream = StringIO()
    for progress in steps(number):
        ProgressLines(stream).on_step(progress)
    assert len(stream.getvalue().splitlines()) == printed
    assert stream.getvalue().splitlines()[-1].startswith(f"step {number}/{number}  loss")


def test_every_step_has_a_line_with_verbose_2():
    stream = Terminal()
    lines = ProgressLines(stream, every_step=True)
    for progress in steps(30):
        lines.on_step(progress)
    assert len(stream.getvalue().splitlines()) == 30
