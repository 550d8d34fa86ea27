"""fit edit, and what fit predict and fit show say of strangers, reasons and photos."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from filmtransfer.cli import main
from tests.conftest import picture


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
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
    for words in (["--keep-statistics", "--out", "kept"], ["--out", "bare"]):
        file = str(root / f"{words[-1]}.safetensors")
        train = ["train", str(root / "photos"), "--steps", "0", "--image-size", "48", *words[:-1], file]
        assert main(train) == 0
    return root


@pytest.fixture
def kept(place, tmp_path) -> Path:
    copy = tmp_path / "kept.safetensors"
    copy.write_bytes((place / "kept.safetensors").read_bytes())
    return copy


def document(capsys, *words: object) -> dict:
    capsys.readouterr()
    code = main([*map(str, words), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def refused(capsys, *words: object) -> tuple[int, str]:
    capsys.readouterr()
    code = main([*map(str, words)])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.err


def test_a_walk_through_all_edits(place, kept, capsys):
    added = document(capsys, "edit", "add", kept, "bars", place / "more")
    assert added["classes"] == {"bars": 7, "disc": 4, "plain": 4}
    assert added["edit"]["photos"] == 3
    gone = document(capsys, "edit", "forget", kept, "disc/0.png", place / "photos/plain/1.png")
    assert gone["classes"] == {"bars": 7, "disc": 3, "plain": 3}
    assert "disc/0.png" not in [p["photo"] for p in document(capsys, "show", kept, "--photos")["photos"]]
    merged = document(capsys, "edit", "merge", kept, "bars", "plain", "--into", "flat")
    assert merged["classes"] == {"flat": 10, "disc": 3}
    assert document(capsys, "edit", "rename", kept, "disc", "round")["classes"] == {"flat": 10, "round": 3}
    before = kept.read_bytes()
    elsewhere = kept.with_name("other.safetensors")
    third = document(
        capsys, "edit", "add", kept, "third", place / "more" / "0.png", place / "noise.png", "-o", elsewhere
    )
    assert third["classes"] == {"flat": 10, "round": 3, "third": 1}, "a photo stands once"
    assert kept.read_bytes() == before
    assert document(capsys, "edit", "remove", elsewhere, "third")["classes"] == {"flat": 10, "round": 3}
    edits = document(capsys, "show", elsewhere)["edits"]
    assert [e["what"] for e in edits] == ["add", "forget", "merge", "rename", "add", "remove"]
    assert all(e["at"].endswith("Z") for e in edits)
    said = document(capsys, "predict", elsewhere, place / "photos" / "disc")
    assert {p["class"] for p in said["predictions"]} == {"round"}


@pytest.mark.parametrize(
    ("words", "code", "line"),
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
def test_mistakes_are_one_clear_line_and_change_nothing(place, capsys, monkeypatch, words, code, line):
    monkeypatch.chdir(place)
    words = [f"{w}.safetensors" if w in ("bare", "kept") else w for w in words]
    before = {f: f.read_bytes() for f in place.glob("*.safetensors")}
    found, said = refused(capsys, "edit", *words)
    assert found == code, said
    assert line in said
    assert {f: f.read_bytes() for f in place.glob("*.safetensors")} == before


def test_predict_rejects_and_explains(place, kept, capsys):
    found = document(
        capsys,
        "predict",
        kept,
        place / "noise.png",
        place / "photos/disc/0.png",
        "--reject",
        "--false-alarm",
        "0.01",
    )
    assert [p["unknown"] for p in found["predictions"]] == [True, False]
    assert [p["class"] for p in found["predictions"]] == [None, "disc"]
    capsys.readouterr()
    assert main(["predict", str(kept), str(place / "noise.png"), "--reject", "--false-alarm", "0.01"]) == 0
    assert "(none of these)" in capsys.readouterr().out
    why = document(capsys, "predict", kept, place / "photos/disc/0.png", "--why")["predictions"][0]["why"]
    assert why["nearest"][0]["photo"] == "disc/0.png"
    assert next(iter(why["distances"])) == "disc"
    capsys.readouterr()
    assert main(["predict", str(kept), str(place / "photos/disc/0.png"), "--why"]) == 0
    assert "nearest photo" in capsys.readouterr().out
    assert refused(capsys, "predict", kept, place / "noise.png", "--reject", "--false-alarm", "1")[0] == 2
    code, said = refused(capsys, "predict", place / "bare.safetensors", place / "noise.png", "--why")
    assert (code, "--keep-statistics" in said) == (3, True)
