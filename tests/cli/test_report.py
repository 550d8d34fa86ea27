"""fit train and fit evaluate write reports where they say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from filmtransfer.cli import main
from tests.conftest import picture

FAST = ["--image-size", "64", "--train-size", "48", "--steps", "0"]


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("report")
    for c, name in enumerate(("disc", "bars", "plain")):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(4):
            picture(c, 10 * c + i).save(root / "photos" / name / f"{i}.png")
    picture(1, 99).save(root / "photos" / "disc" / "wrong.png")
    (root / "strangers").mkdir()
    for i in range(3):
        picture(0, 500 + i).rotate(45).resize((90, 30)).save(root / "strangers" / f"{i}.png")
    words = ["train", str(root / "photos"), "--out", str(root / "a.safetensors"), "--keep-statistics", *FAST]
    assert main(words) == 0
    return root


def run(capsys, *words: object) -> tuple[int, str, str]:
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_training_writes_a_report_beside_the_update(place):
    page = (place / "a.report.html").read_text()
    assert "13 photos" in page
    assert "disc/wrong.png" in page.split('id="suspects"')[1].split("</section>")[0]
    assert str(place) not in page, "names without the way to them"


def test_reports_go_where_they_are_told_or_nowhere(place, capsys, tmp_path):
    train = ["train", place / "photos", "--out", tmp_path / "b.safetensors", *FAST]
    code, out, err = run(capsys, *train, "--report", tmp_path / "page.html", "--json")
    assert code == 0, err
    assert json.loads(out)["report"] == str(tmp_path / "page.html")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["b.safetensors", "page.html"]
    code, out, _ = run(capsys, *train, "--no-report", "--json")
    assert json.loads(out)["report"] is None
    assert sorted(f.name for f in tmp_path.iterdir()) == ["b.safetensors", "page.html"]
    assert (tmp_path / "b.safetensors").read_bytes() != b""


def test_a_report_that_cannot_be_written_is_refused_before_the_work(place, capsys, tmp_path):
    out = tmp_path / "c.safetensors"
    code, _, err = run(
        capsys, "train", place / "photos", "--out", out, "--report", tmp_path / "no" / "r.html"
    )
    assert code == 3
    assert "There is no folder" in err
    code, _, err = run(capsys, "train", place / "photos", "--out", out, "--report", out)
    assert code == 2
    assert "take the place of the update" in err
    assert not out.exists()


def test_evaluation_writes_a_report_with_strangers(place, capsys, tmp_path):
    page = tmp_path / "test.html"
    evaluate = ["evaluate", place / "a.safetensors", place / "photos"]
    code, out, err = run(capsys, *evaluate, "--report", page, "--ood", place / "strangers", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["report"] == str(page)
    text = page.read_text()
    assert f"{round(found['accuracy'] * 13)} rightly" in text
    assert "of 3 strangers" in text
    assert "13 test photos are" in text, "they were learned from, and that is said"


def test_strangers_need_a_report_and_images(place, capsys, tmp_path):
    evaluate = ["evaluate", place / "a.safetensors", place / "photos"]
    code, _, err = run(capsys, *evaluate, "--ood", place / "strangers")
    assert code == 2
    assert "--report" in err
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, *evaluate, "--report", tmp_path / "r.html", "--ood", tmp_path / "empty")
    assert code == 3
    assert "No images" in err


def test_one_photo_of_each_class_has_a_report_too(capsys, tmp_path):
    for c, name in enumerate(("disc", "bars")):
        (tmp_path / "photos" / name).mkdir(parents=True)
        picture(c, c).save(tmp_path / "photos" / name / "0.png")
    code, _, err = run(capsys, "train", tmp_path / "photos", "--out", tmp_path / "d.safetensors", *FAST)
    assert code == 0, err
    assert "cannot be told" in (tmp_path / "d.report.html").read_text()


@pytest.mark.parametrize("words", [["--head", "linear"], ["--head", "protonets"], ["--head", "qda"]])
def test_every_head_has_a_report(place, capsys, tmp_path, words):
    code, _, err = run(capsys, "train", place / "photos", "--out", tmp_path / "e.safetensors", *FAST, *words)
    assert code == 0, err
    assert "Would more photos help?" in (tmp_path / "e.report.html").read_text()
