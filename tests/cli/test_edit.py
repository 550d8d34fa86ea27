"""fit edit: add, remove, forget, merge and rename."""

from __future__ import annotations

import pytest

from tests.cli.running import SMALL, document, run


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


def test_a_stripped_file_predicts_the_same_and_names_no_photo(editable, kept, capsys, tmp_path):
    out = tmp_path / "small.safetensors"
    result = document(capsys, "edit", "strip", kept, "--out", out)
    assert result["edit"]["what"] == "strip"
    assert out.stat().st_size < kept.stat().st_size
    assert b"disc/0.png" in kept.read_bytes()
    assert b"disc/0.png" not in out.read_bytes()
    photo = editable / "photos" / "disc" / "0.png"
    before, after = (document(capsys, "predict", file, photo)["predictions"] for file in (kept, out))
    assert before == after
    kept.with_suffix(".report.html").write_text("a report")
    code, _, err = run(capsys, "edit", "strip", kept, "--out", out)
    assert (code, err) == (0, ""), "the report describes the same classifier"
    code, _, err = run(capsys, "edit", "strip", out)
    assert (code, "keeps no statistics" in err) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["remove", "bare", "disc"], 3, "without --compact"),
        (["forget", "bare", "disc/0.png"], 3, "without --compact"),
        (["add", "bare", "disc", "more"], 3, "without --compact"),
        (["remove", "kept", "cat"], 3, "The classes are: bars, disc, plain"),
        (["merge", "kept", "bars", "disc", "plain", "--into", "all"], 3, "at least two"),
        (["forget", "kept", "0.png"], 3, "Several photos are called 0.png"),
        (["forget", "kept", "none.png"], 3, "No photo in this file is none.png"),
        (["forget", "kept", "noise.png"], 3, "No photo in this file"),
        (["add", "kept", "disc", "photos/bars"], 3, "in this classifier already"),
        (["add", "kept", "disc", "nothing.png"], 3, "There is no file nothing.png"),
        (["rename", "kept", "disc", "bars"], 3, "already"),
        (["rename", "noise.png", "disc", "bars"], 4, "not an update file"),
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


def test_a_forgotten_photo_leaves_the_report_too(reported, tmp_path, capsys):
    """Its picture, name and digest are gone from the report beside the file, or the command says which files have them."""
    file, report = tmp_path / "a.safetensors", tmp_path / "a.report.html"
    file.write_bytes((reported / "a.safetensors").read_bytes())
    report.write_bytes((reported / "a.report.html").read_bytes())
    assert "disc/wrong.png" in report.read_text()
    elsewhere = tmp_path / "b.safetensors"
    code, out, err = run(capsys, "edit", "forget", file, "disc/wrong.png", "--out", elsewhere)
    assert code == 0, err
    assert f"{file} and {report} were not changed and may still contain the photo" in err
    assert "disc/wrong.png" not in elsewhere.with_name("b.report.html").read_text()
    assert "disc/wrong.png" in report.read_text()
    edited = document(capsys, "edit", "forget", file, "disc/wrong.png")
    assert (edited["report"], edited["unchanged"]) == (str(report), [])
    assert "disc/wrong.png" not in report.read_text()
    assert "your 12 photos" in report.read_text()
    code, out, err = run(capsys, "edit", "add", file, "disc", reported / "other")
    assert code == 0, err
    assert f"Wrote {report}: the report after this edit." in out
    assert "other/0.png" in report.read_text()
    code, out, err = run(capsys, "edit", "remove", file, "plain")
    assert "Copies, exports and reports in other places may still contain the class." in out
    assert ">plain<" not in report.read_text()
    assert "plain/" not in report.read_text()


def test_a_report_that_cannot_be_rewritten_is_named(reported, tmp_path, capsys):
    file, report = tmp_path / "a.safetensors", tmp_path / "a.report.html"
    file.write_bytes((reported / "a.safetensors").read_bytes())
    report.write_text("<main>a report of an earlier version</main>")
    _, _, err = run(capsys, "edit", "rename", file, "plain", "flat")
    assert f"{report} still describes the classifier before this edit." in err
    code, _, err = run(capsys, "edit", "forget", file, "disc/wrong.png")
    assert code == 0
    assert f"{report} was not changed and may still contain the photo" in err
    report.unlink()
    report.mkdir()  # no file: there is no report to speak of
    edited = document(capsys, "edit", "forget", file, "disc/0.png")
    assert (edited["report"], edited["unchanged"]) == (None, [])


def test_the_influence_of_fine_tuning_is_mentioned(trained, tmp_path, capsys):
    photos, _ = trained
    file = tmp_path / "tuned.safetensors"
    options = ["--keep-statistics", "--no-report", "--steps", 2, *SMALL]
    assert run(capsys, "train", photos, "--out", file, *options)[0] == 0
    seen = {p["fine_tuned_on"]: p["photo"] for p in document(capsys, "show", file, "--photos")["photos"]}
    _, out, _ = run(capsys, "edit", "forget", file, seen[True], "--out", tmp_path / "x.safetensors")
    assert "Fine-tuning has used this photo; only training again removes that influence." in out
    _, out, _ = run(capsys, "edit", "forget", file, seen[False], "--out", tmp_path / "y.safetensors")
    assert "Fine-tuning has used" not in out
