"""Exported files and folders: what is written, what is refused, and that they load as the same classifier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filmtransfer import FewShotClassifier, InputError, UnavailableError, UpdateFileError, UsageError
from filmtransfer.cli import main
from filmtransfer.export import model_card, push
from filmtransfer.export.model_card import default_title
from filmtransfer.export.quantisation import split_calibration
from tests.conftest import picture
from tests.export.making import classifier, lite0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FewShotClassifier]:
    folder = tmp_path_factory.mktemp("files")
    clf = classifier(lite0())
    clf.save(folder / "mine.safetensors")
    return folder, clf


def document(capsys: Any) -> Any:
    return json.loads(capsys.readouterr().out)


def test_exporting_twice_leaves_the_file_unchanged_and_a_graph_is_refused(made, capsys):
    folder, _ = made
    update, out = str(folder / "mine.safetensors"), folder / "mine.onnx"
    assert main(["export", update, "--onnx", str(out), "--json"]) == 0
    assert document(capsys)["parity"]["largest"] < 1e-4
    content = out.read_bytes()
    assert main(["export", update, "--onnx", str(out), "--json"]) == 0
    assert document(capsys)["unchanged"] == [str(out)]
    assert main(["export", str(out), "--onnx", str(out), "--json"]) == 4
    assert "exported model already (folded)" in document(capsys)["error"]["message"]
    renamed = folder / "renamed.safetensors"
    renamed.write_bytes(content)
    assert main(["export", str(renamed), "--onnx", str(out), "--json"]) == 4
    assert "unchanged" in document(capsys)["error"]["message"]
    assert out.read_bytes() == renamed.read_bytes() == content
    assert not list(folder.glob(".mine*"))


def test_shared_int8_export_by_the_command(made, capsys, tmp_path):
    for i in range(8):
        picture(i, i).save(tmp_path / f"{i}.png")
    arguments = [
        "export",
        str(made[0] / "mine.safetensors"),
        "--onnx",
        str(tmp_path / "all.onnx"),
        "--shared",
    ]
    assert main([*arguments, "--int8", "--calibrate", str(tmp_path), "--json"]) == 0
    result = document(capsys)
    assert {Path(name).name for name in result["files"]} == {"all.onnx", "mine.user.onnx"}
    assert result["int8"]["images"] == 4
    assert result["int8"]["accuracy"] is None  # no labels there
    assert result["int8"]["bytes"] < result["int8"]["float_bytes"] / 3


def test_a_hub_folder_loads_as_the_same_classifier(made, capsys, tmp_path):
    folder, clf = made
    hub = tmp_path / "hub"
    assert main(["export", str(folder / "mine.safetensors"), "--hub", str(hub), "--json"]) == 0
    assert len(document(capsys)["files"]) == 3
    images = [picture(i, 50 + i) for i in range(4)]
    back = FewShotClassifier.from_hub(hub)
    assert np.array_equal(back.predict_proba(images), clf.predict_proba(images))
    config = json.loads((hub / "config.json").read_text())
    assert config["id2label"] == {"0": "cup", "1": "keys", "2": "plant"}
    text = (hub / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: filmtransfer\n")
    assert "| keys | 4 |" in text
    with pytest.raises(UpdateFileError, match=r"holds no update\.safetensors"):
        FewShotClassifier.from_hub(tmp_path)


def test_the_hub_needs_a_network(made, capsys, tmp_path):
    arguments = [
        "export",
        str(made[0] / "mine.safetensors"),
        "--hub",
        str(tmp_path / "hub"),
        "--push",
        "ana/pets",
    ]
    assert main([*arguments, "--json"]) == 5
    assert "HF_HUB_OFFLINE" in document(capsys)["error"]["message"]
    assert not (tmp_path / "hub").exists()
    with pytest.raises(UnavailableError):
        FewShotClassifier.from_hub("hf://ana/pets")
    with pytest.raises(UsageError, match="does not name a repository"):
        push(tmp_path, "pets")


def test_the_model_card_contains_what_is_known(made):
    clf = made[1]
    update = clf.update_
    assert "has not been measured" in model_card(update, "hub")
    update.results = {"estimate": {"accuracy": 0.875}}
    text = model_card(update, "web", notes=["a note."])
    assert "87.5% accuracy, estimated" in text
    assert "value: 0.8750" in text
    assert "- a note." in text
    update.results = {}
    assert default_title(["a|b", "c"]) == "a|b or c?"
    assert default_title(list(range(9))) == "Which of 9 is it?"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "one of --onnx, --web and --hub"),
        (["--onnx", "a.txt"], "not the name of an .onnx file"),
        (["--onnx", "a.onnx", "--int8"], "--int8 needs --calibrate"),
        (["--hub", "x", "--shared"], "--shared needs --onnx"),
        (["--onnx", "a.onnx", "--push", "a/b"], "--push needs --hub"),
    ],
)
def test_options_that_exclude_each_other(made, capsys, options, message):
    assert main(["export", str(made[0] / "mine.safetensors"), *options, "--json"]) == 2
    assert message in document(capsys)["error"]["message"]


def test_one_image_cannot_calibrate_and_measure():
    with pytest.raises(InputError, match="at least two"):
        split_calibration(1)
    assert split_calibration(5) == ([0, 2, 4], [1, 3])
