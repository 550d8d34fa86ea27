"""fit export: what is written, what is refused, and that it loads as the same classifier."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from filmtransfer import FewShotClassifier, UnavailableError, UpdateFileError, UsageError
from filmtransfer.export import push
from filmtransfer.export.graph import read_metadata
from filmtransfer.export.write import load_update
from tests.cli.running import document, run
from tests.conftest import picture
from tests.export.small_classifiers import classifier, lite0


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FewShotClassifier]:
    """Return an update file and its classifier."""
    file, clf = tmp_path_factory.mktemp("export") / "mine.safetensors", classifier(lite0())
    clf.save(file)
    return file, clf


def error_of(capsys, *arguments: object) -> tuple[int, str]:
    code, out, _ = run(capsys, *arguments, "--json")
    return code, json.loads(out)["error"]["message"]


@pytest.mark.slow
def test_exporting_twice_leaves_the_file_unchanged_and_a_graph_is_refused(saved, capsys, tmp_path):
    update, out, renamed = saved[0], tmp_path / "mine.onnx", tmp_path / "renamed.safetensors"
    assert document(capsys, "export", update, "--onnx", out)["parity"]["largest"] < 1e-4
    content = out.read_bytes()
    assert document(capsys, "export", update, "--onnx", out)["unchanged"] == [str(out)]
    code, message = error_of(capsys, "export", out, "--onnx", out)
    assert code == 4
    assert "exported model already (folded)" in message
    renamed.write_bytes(content)
    code, message = error_of(capsys, "export", renamed, "--onnx", out)
    assert code == 4
    assert "unchanged" in message
    assert out.read_bytes() == renamed.read_bytes() == content
    assert not list(tmp_path.glob(".mine*"))


def test_an_update_is_not_taken_for_a_graph(saved, tmp_path):
    """A file that begins as an ONNX file does: with the byte 8, here the length of its JSON document."""
    update, file = saved[1].update_, tmp_path / "mine.safetensors"
    for i in range(256):
        update.edits = [{"at": "", "what": "rename", "class": "x" * 8 * i, "to": "y"}]
        content = update.to_bytes()
        if content[0] == 8:
            break
    update.edits = []
    assert content[0] == 8
    assert b"filmtransfer" in content[:64]
    file.write_bytes(content)
    assert load_update(file).classes == update.classes


def test_the_command_says_whether_rejection_is_included(saved, capsys, tmp_path):
    file, clf = saved
    for rate, text in ((0.05, "5%"), (0.2, "20%")):
        arguments = ["export", file, "--hub", tmp_path / "hub", "--false-alarm", rate]
        assert (
            f"It rejects photos of none of the classes, at a false-alarm rate of {text}."
            in (run(capsys, *arguments)[1])
        )
        threshold = clf.predictor_.threshold(rate)
        assert document(capsys, *arguments)["rejection"] == {"threshold": threshold, "false_alarm": rate}
    code, message = error_of(capsys, "export", file, "--onnx", tmp_path / "a.onnx", "--false-alarm", "0.7")
    assert (code, message) == (2, "The false-alarm rate cannot be 0.7.")
    classifier(lite0(), rejects=False).save(tmp_path / "few.safetensors")
    arguments = ["export", tmp_path / "few.safetensors", "--hub", tmp_path / "few"]
    lines = run(capsys, *arguments)[1].splitlines()
    assert len([line for line in lines if line.startswith("It does not reject photos: This")]) == 1
    assert document(capsys, *arguments)["rejection"] is None
    assert "It cannot reject photos" in (tmp_path / "few" / "README.md").read_text()


@pytest.mark.slow
def test_the_false_alarm_rate_is_that_of_the_graph(saved, capsys, tmp_path):
    file, clf = saved
    for options in ([], ["--shared"]):
        out = tmp_path / "all.onnx"
        result = document(capsys, "export", file, "--onnx", out, "--false-alarm", "0.2", *options)
        expected = {"threshold": clf.predictor_.threshold(0.2), "false_alarm": 0.2}
        written = tmp_path / "mine.user.onnx" if options else out
        assert result["rejection"] == read_metadata(written.read_bytes())["rejection"] == expected
        out.unlink()


@pytest.mark.slow
def test_a_shared_int8_export(saved, capsys, tmp_path):
    for i in range(8):
        picture(i, i).save(tmp_path / f"{i}.png")
    export = ["export", saved[0], "--onnx", tmp_path / "all.onnx", "--shared"]
    result = document(capsys, *export, "--int8", "--calibrate", tmp_path)
    assert {Path(name).name for name in result["files"]} == {"all.onnx", "mine.user.onnx"}
    assert result["int8"]["images"] == 4
    assert result["int8"]["accuracy"] is None  # no labels there
    assert 0 <= result["int8"]["rejection_agreement"] <= 1
    assert result["int8"]["bytes"] < result["int8"]["float_bytes"] / 3


def test_a_hub_folder_loads_as_the_same_classifier(saved, capsys, tmp_path):
    file, clf = saved
    hub = tmp_path / "hub"
    assert len(document(capsys, "export", file, "--hub", hub)["files"]) == 3
    images = [picture(i, 50 + i) for i in range(4)]
    loaded = FewShotClassifier.from_hub(hub)
    assert np.array_equal(loaded.predict_proba(images), clf.predict_proba(images))
    config = json.loads((hub / "config.json").read_text())
    assert config["id2label"] == {"0": "cup", "1": "keys", "2": "plant"}
    text = (hub / "README.md").read_text()
    assert text.startswith("---\nlibrary_name: filmtransfer\n")
    assert "| keys | 4 |" in text
    with pytest.raises(UpdateFileError, match=r"contains no update\.safetensors"):
        FewShotClassifier.from_hub(tmp_path)


def test_the_hub_needs_a_network(saved, capsys, tmp_path):
    code, message = error_of(capsys, "export", saved[0], "--hub", tmp_path / "hub", "--push", "ana/pets")
    assert code == 5
    assert "HF_HUB_OFFLINE" in message
    assert not (tmp_path / "hub").exists()
    with pytest.raises(UnavailableError):
        FewShotClassifier.from_hub("hf://ana/pets")
    with pytest.raises(UsageError, match="does not name a repository"):
        push(tmp_path, "pets")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "one of --onnx, --web and --hub"),
        (["--onnx", "a.txt"], "not the name of an .onnx file"),
        (["--onnx", "a.onnx", "--int8"], "--int8 needs --calibrate"),
        (["--hub", "x", "--shared"], "--shared needs --onnx"),
        (["--onnx", "a.onnx", "--push", "a/b"], "--push needs --hub"),
    ],
)
def test_options_that_exclude_each_other(saved, capsys, options, expected):
    code, message = error_of(capsys, "export", saved[0], *options)
    assert code == 2
    assert expected in message
