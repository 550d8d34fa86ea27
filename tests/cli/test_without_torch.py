"""The commands that need no torch: they do not import it, and they work where it is not installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from filmtransfer import FewShotClassifier
from filmtransfer.runtime.extractor import prepare_predictions
from tests.conftest import picture

pytestmark = pytest.mark.process(seconds=10)
CLASSES = ("disc", "bars", "plain")
# Runs a command in a process in which some packages cannot be imported, and says which of them were.
RUN = """
import sys
for name in {missing}:
    sys.modules[name] = None  # importing it is an error
from filmtransfer.cli import main
code = main({arguments!r})
print([name for name in ("torch", "timm", "sklearn", "onnxruntime") if sys.modules.get(name)], file=sys.stderr)
sys.exit(code)
"""
HEAVY = ("torch", "timm", "torchvision", "sklearn")


def run(*arguments: object, missing: tuple[str, ...] = HEAVY) -> tuple[int, str, str]:
    code = RUN.format(missing=missing, arguments=[str(one) for one in arguments])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """An update with its statistics, photos, and the graph in the cache."""
    root = tmp_path_factory.mktemp("without-torch")
    images, labels = [], []
    for c, name in enumerate(CLASSES):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(4):
            file = root / "photos" / name / f"{i}.png"
            picture(c, 10 * c + i).save(file)
            images.append(file)
            labels.append(name)
    clf = FewShotClassifier(steps=0, image_size=64).fit(images, labels)
    clf.save(root / "mine.safetensors")
    assert prepare_predictions(clf.model_)
    expected = clf.classify([root / "photos" / "bars" / "1.png"]).probabilities[0]
    (root / "expected.json").write_text(
        json.dumps(dict(zip(clf.classes_.tolist(), expected.tolist(), strict=True)))
    )
    return root


def test_predict_runs_on_onnxruntime_and_agrees_with_torch(folder):
    photo = folder / "photos" / "bars" / "1.png"
    code, out, err = run(
        "predict", folder / "mine.safetensors", photo, "--top", 3, "--reject", "--why", "--json"
    )
    assert code == 0, err
    document = json.loads(out)
    assert document["runtime"] == "onnx"
    assert err.splitlines()[-1] == "['onnxruntime']"
    (prediction,) = document["predictions"]
    expected = json.loads((folder / "expected.json").read_text())
    for one in prediction["probabilities"]:
        assert one["p"] == pytest.approx(expected[one["class"]], abs=1e-5)
    assert prediction["why"]["nearest"][0]["photo"] == "bars/1.png"


def test_evaluate_with_a_report_runs_on_onnxruntime(folder, tmp_path):
    code, out, err = run(
        "evaluate", folder / "mine.safetensors", folder / "photos", "--report", tmp_path / "r.html", "--json"
    )
    assert code == 0, err
    assert json.loads(out)["accuracy"] == 1.0
    assert (tmp_path / "r.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "FILE"),
        ("show", "FILE", "--photos"),
        ("edit", "rename", "FILE", "bars", "stripes", "-o", "OUT"),
        ("edit", "remove", "FILE", "bars", "-o", "OUT"),
        ("edit", "merge", "FILE", "bars", "disc", "--into", "both", "-o", "OUT"),
        ("edit", "forget", "FILE", "bars/1.png", "-o", "OUT"),
        ("backbones",),
        ("bench", "recipes"),
        ("--help",),
        ("user", "add", "ann", "--folder", "STORE"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_these_commands_need_neither_torch_nor_onnxruntime(folder, tmp_path, arguments):
    names = {"FILE": folder / "mine.safetensors", "OUT": tmp_path / "out.safetensors", "STORE": tmp_path}
    code, _, err = run(*(names.get(one, one) for one in arguments), missing=(*HEAVY, "onnxruntime"))
    assert code == 0, err
    assert err.splitlines()[-1] == "[]"


def test_adding_photos_needs_the_graph_only(folder, tmp_path):
    picture(1, 99).save(tmp_path / "new.png")
    code, _, err = run(
        "edit",
        "add",
        folder / "mine.safetensors",
        "bars",
        tmp_path / "new.png",
        "-o",
        tmp_path / "out.safetensors",
    )
    assert code == 0, err
    assert err.splitlines()[-1] == "['onnxruntime']"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("train", "NONE", "-o", "OUT"), 3, "There is no folder"),
        (("train", "ONE", "-o", "OUT"), 3, "only one class"),
        (("train", "PHOTOS", "-o", "NONE/x"), 3, "There is no folder"),
        (("train", "PHOTOS", "-o", "OUT", "--head", "svm"), 2, "head cannot be 'svm'"),
        (("train", "PHOTOS", "-o", "OUT", "--preset", "x"), 2, "preset cannot be 'x'"),
        (("train", "PHOTOS", "-o", "OUT", "--prior", "x"), 2, "prior cannot be 'x'"),
        (("train", "PHOTOS", "-o", "OUT", "--steps", "-1"), 2, "steps cannot be -1"),
        (("train", "PHOTOS", "-o", "OUT", "--weights", "NONE"), 4, "no weights file"),
        (("export", "NONE", "--onnx", "OUT"), 4, "cannot be read"),
        (("export", "FILE", "--onnx", "NONE/x.onnx"), 3, "There is no folder"),
        (("export", "FILE", "--web", "FILE"), 3, "is a file, not a folder"),
        (("export", "FILE", "--web", "NONE/x"), 3, "There is no folder"),
        (("export", "FILE", "--web", "OUT", "--ort", "NONE"), 3, "There is no folder"),
        (("export", "FILE", "--onnx", "OUT", "--int8", "--calibrate", "NONE"), 3, "There is no folder"),
        (("predict", "FILE", "NONE"), 3, "There is no file"),
        (("evaluate", "NONE", "PHOTOS"), 4, "cannot be read"),
    ],
    ids=lambda arguments: " ".join(arguments[:3]) if isinstance(arguments, tuple) else "",
)
def test_mistakes_are_reported_before_anything_heavy_is_imported(folder, tmp_path, arguments, code, words):
    (tmp_path / "one" / "only").mkdir(parents=True)
    picture(0, 1).save(tmp_path / "one" / "only" / "1.png")
    names = {
        "FILE": folder / "mine.safetensors", "PHOTOS": folder / "photos", "OUT": tmp_path / "out",
        "ONE": tmp_path / "one", "NONE": tmp_path / "none", "NONE/x": tmp_path / "none" / "x",
        "NONE/x.onnx": tmp_path / "none" / "x.onnx",
    }  # fmt: skip
    done, _, err = run(*(names.get(one, one) for one in arguments), missing=(*HEAVY, "onnxruntime"))
    assert done == code, err
    assert words in err
    assert "Traceback" not in err
    assert err.splitlines()[-1] == "[]", "what was imported"


def test_training_says_what_is_missing(folder, tmp_path):
    code, _, err = run("train", folder / "photos", "--out", tmp_path / "new.safetensors")
    assert code == 5
    assert "torch, which is not installed" in err
    assert "Training needs the complete package" in err
    assert "pip install" in err


def test_without_a_graph_and_without_torch_the_error_says_what_to_do(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FILMTRANSFER_CACHE", str(tmp_path / "empty"))
    code, _, err = run("predict", folder / "mine.safetensors", folder / "photos" / "bars" / "1.png")
    assert code == 5
    assert "There is no graph of efficientnet_lite0 for images of 64 pixels" in err
    assert "FILMTRANSFER_CACHE" in err


def test_without_onnxruntime_torch_predicts(folder):
    photo = folder / "photos" / "bars" / "1.png"
    code, out, err = run("predict", folder / "mine.safetensors", photo, "--json", missing=("onnxruntime",))
    assert code == 0, err
    assert json.loads(out)["runtime"] == "torch"
    code, _, err = run(
        "predict", folder / "mine.safetensors", photo, "--runtime", "onnx", missing=("onnxruntime",)
    )
    assert code == 5
    assert "pip install onnxruntime" in err
