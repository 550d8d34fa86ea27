"""fit predict: classes, probabilities, rejection and explanation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from filmtransfer import FewShotClassifier
from filmtransfer.model.ood import FALSE_ALARM
from tests.cli.running import document, run
from tests.data.test_pixels import broken


def test_text_output(trained, capsys):
    photos, update = trained
    code, out, _ = run(capsys, "predict", str(update), str(photos / "plain" / "0.png"))
    assert code == 0
    assert "plain" in out
    assert "%" in out
    code, out, _ = run(capsys, "evaluate", str(update), str(photos))
    assert "Accuracy on 12 photos: 100% (95% interval 75% to 100%)." in out
    code, out, _ = run(capsys, "show", str(update))
    assert "efficientnet_lite0" in out


@pytest.mark.parametrize(("runtime", "tolerance"), [("torch", 0), ("onnx", 1e-5)])
def test_command_and_python_give_the_same_prediction(trained, capsys, runtime, tolerance):
    photos, update = trained
    files = sorted((photos / "disc").iterdir())
    arguments = ["predict", str(update), *map(str, files), "--top", "3", "--runtime", runtime]
    printed = document(capsys, *arguments)
    assert printed["runtime"] == runtime
    clf = FewShotClassifier.load(update)
    for row, probabilities in zip(printed["predictions"], clf.predict_proba(files), strict=True):
        by_command = [c["p"] for c in row["probabilities"]]
        np.testing.assert_allclose(by_command, np.sort(probabilities)[::-1], rtol=0, atol=tolerance)


def test_broken_images_are_skipped_or_refused_by_strict(trained, capsys, tmp_path):
    photos, update = trained
    files = [p for p in broken(tmp_path).values() if p.exists()]
    good = photos / "disc" / "0.png"
    code, out, err = run(capsys, "predict", str(update), str(good), *map(str, files), "--json")
    result = json.loads(out)
    assert code == 0
    assert len(result["predictions"]) == 1
    assert {Path(s["image"]).name for s in result["skipped"]} == {f.name for f in files}
    assert err.count("skipped: ") == len(files)
    code, _, err = run(capsys, "predict", str(update), str(good), *map(str, files), "--strict")
    assert code == 3
    assert "cannot be used" in err


def test_a_mistyped_path_is_one_line_and_nothing_is_predicted(trained, capsys):
    photos, update = trained
    code, out, err = run(capsys, "predict", str(update), "nope.jpg", str(photos / "disc" / "0.png"))
    assert (code, out) == (3, "")
    assert err.splitlines()[0] == "fit: There is no file nope.jpg."
    assert err.count("nope.jpg") == 1


def test_predict_rejects_and_explains(editable, kept, capsys):
    result = document(
        capsys,
        "predict",
        kept,
        editable / "noise.png",
        editable / "photos/disc/0.png",
        "--reject",
        "--false-alarm",
        "0.01",
    )
    assert [p["rejected"] for p in result["predictions"]] == [True, False]
    assert [p["unknown"] for p in result["predictions"]] == [True, False], "the former key"
    assert [p["class"] for p in result["predictions"]] == [None, "disc"]
    code, out, _ = run(capsys, "predict", kept, editable / "noise.png", "--reject", "--false-alarm", "0.01")
    assert (code, "(none of these)" in out) == (0, True)
    why = document(capsys, "predict", kept, editable / "photos/disc/0.png", "--why")["predictions"][0]["why"]
    assert why["nearest"][0]["photo"] == "disc/0.png"
    assert next(iter(why["distances"])) == "disc"
    code, out, _ = run(capsys, "predict", kept, editable / "photos/disc/0.png", "--why")
    assert (code, "nearest photo" in out) == (0, True)
    assert run(capsys, "predict", kept, editable / "noise.png", "--reject", "--false-alarm", "1")[0] == 2
    code, _, err = run(capsys, "predict", editable / "bare.safetensors", editable / "noise.png", "--why")
    assert (code, "without --compact" in err) == (3, True)


def test_a_rejection_has_its_score_and_threshold(trained, capsys):
    photos, file = trained
    arguments = ["predict", str(file), str(photos / "disc" / "0.png"), "--reject"]
    (prediction,) = json.loads(run(capsys, *arguments, "--json")[1])["predictions"]
    assert prediction["rejected"] == (prediction["ood_score"] < prediction["ood_threshold"])
    assert f"the threshold of {prediction['ood_threshold']:.2f}." in run(capsys, *arguments, "--why")[1]
    _, out, _ = run(capsys, *arguments, "--false-alarm", str(FALSE_ALARM), "--json")
    assert json.loads(out)["predictions"] == [prediction], "it is the default"
    code, _, err = run(capsys, *arguments[:-1], "--false-alarm", "0.1")
    assert (code, "--false-alarm needs --reject" in err) == (2, True)
