"""fit train and fit evaluate write reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from filmtransfer.cli import main
from tests.conftest import picture

FAST = ["--image-size", "64", "--train-size", "48", "--steps", "0"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("report")
    for c, name in enumerate(("disc", "bars", "plain")):
        (root / "photos" / name).mkdir(parents=True)
        for i in range(4):
            picture(c, 10 * c + i).save(root / "photos" / name / f"{i}.png")
    picture(1, 99).save(root / "photos" / "disc" / "wrong.png")
    (root / "other").mkdir()
    for i in range(3):
        picture(0, 500 + i).rotate(45).resize((90, 30)).save(root / "other" / f"{i}.png")
    arguments = [
        "train",
        str(root / "photos"),
        "--out",
        str(root / "a.safetensors"),
        "--keep-statistics",
        *FAST,
    ]
    assert main(arguments) == 0
    return root


def run(capsys, *arguments: object) -> tuple[int, str, str]:
    code = main([str(word) for word in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_training_writes_a_report_beside_the_update(folder):
    page = (folder / "a.report.html").read_text()
    assert "13 photos" in page
    assert "disc/wrong.png" in page.split('id="label-issues"')[1].split("</section>")[0]
    assert str(folder) not in page, "names without the path"


def test_reports_are_written_to_the_given_path_or_not_at_all(folder, capsys, tmp_path):
    train = ["train", folder / "photos", "--out", tmp_path / "b.safetensors", *FAST]
    code, out, err = run(capsys, *train, "--report", tmp_path / "page.html", "--json")
    assert code == 0, err
    assert json.loads(out)["report"] == str(tmp_path / "page.html")
    assert sorted(f.name for f in tmp_path.iterdir()) == ["b.safetensors", "page.html"]
    code, out, _ = run(capsys, *train, "--no-report", "--json")
    assert json.loads(out)["report"] is None
    assert sorted(f.name for f in tmp_path.iterdir()) == ["b.safetensors", "page.html"]
    assert (tmp_path / "b.safetensors").read_bytes() != b""


def test_an_unwritable_report_is_refused_before_training(folder, capsys, tmp_path):
    out = tmp_path / "c.safetensors"
    code, _, err = run(
        capsys, "train", folder / "photos", "--out", out, "--report", tmp_path / "no" / "r.html"
    )
    assert code == 3
    assert "There is no folder" in err
    code, _, err = run(capsys, "train", folder / "photos", "--out", out, "--report", out)
    assert code == 2
    assert "take the place of the update" in err
    assert not out.exists()


def test_evaluation_writes_a_report_with_out_of_distribution_images(folder, capsys, tmp_path):
    page = tmp_path / "test.html"
    evaluate = ["evaluate", folder / "a.safetensors", folder / "photos"]
    code, out, err = run(capsys, *evaluate, "--report", page, "--ood", folder / "other", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["report"] == str(page)
    text = page.read_text()
    assert f"{round(result['accuracy'] * 13)} of 13 test photos correctly" in text
    assert "of 3 photos of something else" in text
    assert "13 test photos are" in text, "they are also training photos, and the report says so"


def test_the_former_option_name_still_works(folder, capsys, tmp_path):
    evaluate = ["evaluate", folder / "a.safetensors", folder / "photos", "--report", tmp_path / "r.html"]
    code, _, err = run(capsys, *evaluate, "--strangers", folder / "other")
    assert code == 0, err
    assert "of 3 photos of something else" in (tmp_path / "r.html").read_text()
    _, out, _ = run(capsys, "evaluate", "--help")
    assert "--ood" in out
    assert "--strangers" not in out


def test_out_of_distribution_images_need_a_report_and_readable_files(folder, capsys, tmp_path):
    evaluate = ["evaluate", folder / "a.safetensors", folder / "photos"]
    code, _, err = run(capsys, *evaluate, "--ood", folder / "other")
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
    assert "Its accuracy is unknown" in (tmp_path / "d.report.html").read_text()


@pytest.mark.parametrize("arguments", [["--head", "linear"], ["--head", "protonets"], ["--head", "qda"]])
def test_every_head_has_a_report(folder, capsys, tmp_path, arguments):
    code, _, err = run(
        capsys, "train", folder / "photos", "--out", tmp_path / "e.safetensors", *FAST, *arguments
    )
    assert code == 0, err
    assert "Would more photos help?" in (tmp_path / "e.report.html").read_text()
