"""fit show: the content of an update, and the parameter counts of a backbone."""

from __future__ import annotations

import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from filmtransfer import Update
from filmtransfer.cli.printing import Printer, SafeConsole
from tests.cli.running import SMALL, document, run


def test_the_stages_of_a_backbone(capsys):
    stages = document(capsys, "show", "--backbone", "bit_m_r50x1")["stages"]
    assert [s["film_from"] for s in stages] == [11_648, 11_648, 11_264, 10_240, 7_168, 4_096]
    assert sum(s["sites"] for s in stages) == 17


def test_the_papers_table_for_any_backbone(capsys):
    found = document(capsys, "show", "--backbone", "bit_m_r50x1", "--classes", "10")
    counts = {row["method"]: row["updateable"] for row in found["methods"]}
    assert counts == {
        "full fine-tuning (BiT)": 23_520_832,
        "FiT-QDA": 21_013_891,
        "FiT-LDA": 32_140,
        "FiT-ProtoNets": 32_128,
    }


def test_a_qda_update_reports_both_counts(trained, capsys, tmp_path):
    photos, _ = trained
    out = tmp_path / "q.safetensors"
    document(capsys, "train", str(photos), "--out", str(out), "--head", "qda", "--steps", "0", *SMALL)
    shown = document(capsys, "show", str(out))
    assert shown["updateable_numbers"] == 19_936 + 3 * 1280 + 3 * 1280 * 1281 // 2 + 3
    assert shown["stored_numbers"] == 19_936 + 12 * 1280 + 1280 + 12 + 3


def test_plain_facts_come_first_and_the_rest_on_request(trained, capsys):
    _, update = trained
    code, out, _ = run(capsys, "show", update)
    assert code == 0
    first = out.splitlines()[0]
    assert first.endswith("a classifier for 3 classes, from 12 photos")
    for words in ("accuracy", "size", "efficientnet_lite0, images of 64 pixels", "can be edited"):
        assert words in out
    assert "learning_rate" not in out
    code, everything, _ = run(capsys, "show", update, "--all")
    assert "19,936 of them FiLM" in everything
    assert re.search(r"learning_rate +0\.0035", everything)
    assert re.search(r"photos it was measured on +\d", everything)
    assert re.search(r"interpolation factor α +\d", everything)
    assert "log_loss" not in everything
    for page in (out, everything):
        assert "{" not in page, "no Python dict"
        assert "None" not in page
        assert max(len(line) for line in page.splitlines() if "/" not in line) <= 100


def test_a_compact_file_says_what_it_cannot_do(editable, capsys):
    code, out, _ = run(capsys, "show", editable / "bare.safetensors")
    assert code == 0
    assert "no: it keeps no statistics" in out
    shown = document(capsys, "show", editable / "kept.safetensors")
    assert shown["compact_bytes"] < shown["bytes"]
    assert document(capsys, "show", editable / "bare.safetensors")["bytes"] == shown["compact_bytes"]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_narrow_terminal_wraps_and_cuts_nothing(width):
    written = StringIO()
    printer = Printer(as_json=False)
    printer.out = Console(file=written, force_terminal=True, width=width, highlight=False, no_color=True)
    note = "as loaded by the released code of the paper"
    printer.table(["name", "parameters", "note"], [["bit_m_r50x1_released", "23,500,352", note]], right=(1,))
    printer.facts({"updateable parameters": f"11,648, {note}"})
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", written.getvalue())
    assert "…" not in shown
    assert "bit_m_r50x1_released" in shown
    assert "23,500,352" in shown
    assert "updateable parameters" in shown
    if width > 40:
        for word in note.split():
            assert shown.count(word) >= 2
    assert max(map(len, shown.splitlines())) <= max(width, 45)


def test_names_in_a_file_cannot_command_the_terminal(trained, capsys, tmp_path):
    update = Update.load(trained[1])
    hostile = "\x1b[2J\x1b]0;title\x07\u202e"
    file = tmp_path / f"{hostile}.safetensors"
    classes = [hostile, f"[red]{hostile}", *update.classes[2:]]
    replace(
        update, classes=classes, versions={hostile: hostile}, settings=update.settings | {"x": hostile}
    ).save(file)
    for options in ([], ["--all"], ["--photos"], ["--json"]):
        code, out, err = run(capsys, "show", str(file), *options)
        assert code == 0
        assert not set("\x1b\x07\u202e") & set(out + err)
        assert "\\x1b[2J" in out or "\\u001b[2J" in out
    assert list(document(capsys, "show", str(file))["classes"])[:2] == classes[:2]
    code, out, err = run(capsys, "edit", "rename", str(file), hostile + "?", "x")
    assert code == 3
    assert "\x1b" not in out + err


def test_a_class_name_cannot_forge_a_line(trained, capsys, tmp_path):
    forged = "cup\nfit: everything is fine"
    update = Update.load(trained[1])
    file = tmp_path / "forged.safetensors"
    replace(update, classes=[forged, *update.classes[1:]]).save(file)
    photos = sorted(trained[0].rglob("*.png"))
    for command in (
        ["show", str(file)],
        ["predict", str(file), *map(str, photos[:4])],
        ["edit", "remove", str(file), "cup"],
    ):
        _, out, err = run(capsys, *command)
        assert "everything is fine" in out + err, command
        assert not any(line.startswith("fit: everything") for line in (out + err).splitlines()), command


def test_a_console_shows_names_in_tables_bars_and_errors_as_text():
    out = StringIO()
    printer = Printer(as_json=False)
    printer.out = SafeConsole(file=out, force_terminal=True, width=60)
    printer.table(["\x1b[5mclass"], [["\x1b[2J[bold]"]])
    with Progress(TextColumn("{task.description}", markup=False), console=printer.out) as bar:
        bar.add_task("[/red] \x1b]0;x\x07")
    for sequence in ("\x1b[5m", "\x1b[2J", "\x1b]0", "\x07"):
        assert sequence not in out.getvalue()
    assert "\\x1b[2J[bold]" in out.getvalue()
    assert "[/red]" in out.getvalue()
