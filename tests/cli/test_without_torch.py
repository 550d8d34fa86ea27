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
    clf = FewShotClassifier(steps=0, image_size=64, keep_statistics=True).fit(images, labels)
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
        ("--help",),
        ("user", "list", "--folder", "STORE"),
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


def test_training_says_what_is_missing(folder, tmp_path):
    code, _, err = run("train", folder / "photos", "--out", tmp_path / "new.safetensors")
    assert code == 5
    assert "torch, which is not installed" in err
    assert "pip install filmtransfer" in err


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
