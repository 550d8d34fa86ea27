"""fit edit: add, remove, forget, merge and rename."""

from __future__ import annotations

import pytest

from tests.cli.running import document, run


@pytest.mark.slow
def test_all_edits_one_after_the_other(editable, kept, capsys):
    added = document(capsys, "edit", "add", kept, "bars", editable / "more")
    assert added["classes"] == {"bars": 7, "disc": 4, "plain": 4}
    assert added["edit"]["photos"] == 3
    forgotten = document(capsys, "edit", "forget", kept, "disc/0.png", editable / "photos/plain/1.png")
    assert forgotten["classes"] == {"bars": 7, "disc": 3, "plain": 3}
    assert "disc/0.png" not in [p["photo"] for p in document(capsys, "show", kept, "--photos")["photos"]]
    merged = document(capsys, "edit", "merge", kept, "bars", "plain", "--into", "flat")
    assert merged["classes"] == {"flat": 10, "disc": 3}
    assert document(capsys, "edit", "rename", kept, "disc", "round")["classes"] == {"flat": 10, "round": 3}
    before = kept.read_bytes()
    elsewhere = kept.with_name("other.safetensors")
    third = document(
        capsys,
        "edit",
        "add",
        kept,
        "third",
        editable / "more" / "0.png",
        editable / "noise.png",
        "-o",
        elsewhere,
    )
    assert third["classes"] == {"flat": 10, "round": 3, "third": 1}, "a photo is added once"
    assert kept.read_bytes() == before
    assert document(capsys, "edit", "remove", elsewhere, "third")["classes"] == {"flat": 10, "round": 3}
    edits = document(capsys, "show", elsewhere)["edits"]
    assert [e["what"] for e in edits] == ["add", "forget", "merge", "rename", "add", "remove"]
    assert all(e["at"].endswith("Z") for e in edits)
    predicted = document(capsys, "predict", elsewhere, editable / "photos" / "disc")
    assert {p["class"] for p in predicted["predictions"]} == {"round"}


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["remove", "bare", "disc"], 3, "--keep-statistics"),
        (["forget", "bare", "disc/0.png"], 3, "--keep-statistics"),
        (["add", "bare", "disc", "more"], 3, "--keep-statistics"),
        (["remove", "kept", "cat"], 3, "The classes are: bars, disc, plain"),
        (["merge", "kept", "bars", "disc", "plain", "--into", "all"], 3, "at least two"),
        (["forget", "kept", "0.png"], 3, "Several photos are called 0.png"),
        (["forget", "kept", "none.png"], 3, "No photo in this file is none.png"),
        (["forget", "kept", "noise.png"], 3, "No photo in this file"),
        (["add", "kept", "disc", "photos/bars"], 3, "in it already"),
        (["add", "kept", "disc", "nothing.png"], 3, "no such file"),
        (["rename", "kept", "disc", "bars"], 3, "already"),
        (["rename", "noise.png", "disc", "bars"], 4, "not a complete update file"),
    ],
)
def test_a_mistake_prints_one_line_and_changes_nothing(editable, capsys, monkeypatch, arguments, code, line):
    monkeypatch.chdir(editable)
    arguments = [f"{w}.safetensors" if w in ("bare", "kept") else w for w in arguments]
    before = {f: f.read_bytes() for f in editable.glob("*.safetensors")}
    exit_code, _, err = run(capsys, "edit", *arguments)
    assert exit_code == code, err
    assert line in err
    assert "Traceback" not in err
    assert {f: f.read_bytes() for f in editable.glob("*.safetensors")} == before
