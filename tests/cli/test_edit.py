"""fit edit, and the rejection, explanation and list of photos of fit predict and fit show."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from filmtransfer.cli import main
from tests.conftest import picture


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("edit")
    for c, name in enumerate(("disc", "bars", "plain")):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(4):
            picture(c, 10 * c + i).save(root / "photos" / name / f"{i}.png")
    (root / "more").mkdir()
    for i in range(3):
        picture(1, 900 + i).save(root / "more" / f"{i}.png")
    noise = np.random.default_rng(0).integers(0, 255, (40, 40, 3), dtype=np.uint8)
    Image.fromarray(noise).save(root / "noise.png")
    for arguments in (["--keep-statistics", "--out", "kept"], ["--out", "bare"]):
        file = str(root / f"{arguments[-1]}.safetensors")
        train = ["train", str(root / "photos"), "--steps", "0", "--image-size", "48", *arguments[:-1], file]
        assert main(train) == 0
    return root


@pytest.fixture
def kept(folder, tmp_path) -> Path:
    copy = tmp_path / "kept.safetensors"
    copy.write_bytes((folder / "kept.safetensors").read_bytes())
    return copy


def document(capsys, *arguments: object) -> dict:
    capsys.readouterr()
    code = main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def refused(capsys, *arguments: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main([*map(str, arguments)])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.err


def test_all_edits_one_after_the_other(folder, kept, capsys):
    added = document(capsys, "edit", "add", kept, "bars", folder / "more")
    assert added["classes"] == {"bars": 7, "disc": 4, "plain": 4}
    assert added["edit"]["photos"] == 3
    forgotten = document(capsys, "edit", "forget", kept, "disc/0.png", folder / "photos/plain/1.png")
    assert forgotten["classes"] == {"bars": 7, "disc": 3, "plain": 3}
    assert "disc/0.png" not in [p["photo"] for p in document(capsys, "show", kept, "--photos")["photos"]]
    merged = document(capsys, "edit", "merge", kept, "bars", "plain", "--into", "flat")
    assert merged["classes"] == {"flat": 10, "disc": 3}
    assert document(capsys, "edit", "rename", kept, "disc", "round")["classes"] == {"flat": 10, "round": 3}
    before = kept.read_bytes()
    elsewhere = kept.with_name("other.safetensors")
    third = document(
        capsys, "edit", "add", kept, "third", folder / "more" / "0.png", folder / "noise.png", "-o", elsewhere
    )
    assert third["classes"] == {"flat": 10, "round": 3, "third": 1}, "a photo stands once"
    assert kept.read_bytes() == before
    assert document(capsys, "edit", "remove", elsewhere, "third")["classes"] == {"flat": 10, "round": 3}
    edits = document(capsys, "show", elsewhere)["edits"]
    assert [e["what"] for e in edits] == ["add", "forget", "merge", "rename", "add", "remove"]
    assert all(e["at"].endswith("Z") for e in edits)
    predicted = document(capsys, "predict", elsewhere, folder / "photos" / "disc")
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
        (["rename", "noise.png", "disc", "bars"], 4, "not a whole update file"),
    ],
)
def test_a_mistake_prints_one_line_and_changes_nothing(folder, capsys, monkeypatch, arguments, code, line):
    monkeypatch.chdir(folder)
    arguments = [f"{w}.safetensors" if w in ("bare", "kept") else w for w in arguments]
    before = {f: f.read_bytes() for f in folder.glob("*.safetensors")}
    exit_code, message = refused(capsys, "edit", *arguments)
    assert exit_code == code, message
    assert line in message
    assert {f: f.read_bytes() for f in folder.glob("*.safetensors")} == before


def test_predict_rejects_and_explains(folder, kept, capsys):
    result = document(
        capsys,
        "predict",
        kept,
        folder / "noise.png",
        folder / "photos/disc/0.png",
        "--reject",
        "--false-alarm",
        "0.01",
    )
    assert [p["rejected"] for p in result["predictions"]] == [True, False]
    assert [p["unknown"] for p in result["predictions"]] == [True, False], "the former key"
    assert [p["class"] for p in result["predictions"]] == [None, "disc"]
    capsys.readouterr()
    assert main(["predict", str(kept), str(folder / "noise.png"), "--reject", "--false-alarm", "0.01"]) == 0
    assert "(none of these)" in capsys.readouterr().out
    why = document(capsys, "predict", kept, folder / "photos/disc/0.png", "--why")["predictions"][0]["why"]
    assert why["nearest"][0]["photo"] == "disc/0.png"
    assert next(iter(why["distances"])) == "disc"
    capsys.readouterr()
    assert main(["predict", str(kept), str(folder / "photos/disc/0.png"), "--why"]) == 0
    assert "nearest photo" in capsys.readouterr().out
    assert refused(capsys, "predict", kept, folder / "noise.png", "--reject", "--false-alarm", "1")[0] == 2
    code, message = refused(capsys, "predict", folder / "bare.safetensors", folder / "noise.png", "--why")
    assert (code, "--keep-statistics" in message) == (3, True)
