"""fit evaluate --report: the report on test images and on out-of-distribution images."""

from __future__ import annotations

import json

from tests.cli.running import run


def test_evaluation_writes_a_report_with_out_of_distribution_images(reported, capsys, tmp_path):
    page = tmp_path / "test.html"
    evaluate = ["evaluate", reported / "a.safetensors", reported / "photos"]
    code, out, err = run(capsys, *evaluate, "--report", page, "--ood", reported / "other", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert result["report"] == str(page)
    text = page.read_text()
    assert result["accuracy"] == 1
    assert "all 13 test photos correctly" in text
    assert "of 3 photos of something else" in text
    assert "13 test photos are" in text, "they are also training photos, and the report says so"


def test_the_former_option_name_still_works(reported, capsys, tmp_path):
    evaluate = ["evaluate", reported / "a.safetensors", reported / "photos", "--report", tmp_path / "r.html"]
    code, _, err = run(capsys, *evaluate, "--strangers", reported / "other")
    assert code == 0, err
    assert "of 3 photos of something else" in (tmp_path / "r.html").read_text()
    _, out, _ = run(capsys, "evaluate", "--help")
    assert "--ood" in out
    assert "--strangers" not in out


def test_out_of_distribution_images_need_a_report_and_readable_files(reported, capsys, tmp_path):
    evaluate = ["evaluate", reported / "a.safetensors", reported / "photos"]
    code, _, err = run(capsys, *evaluate, "--ood", reported / "other")
    assert code == 2
    assert "--report" in err
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, *evaluate, "--report", tmp_path / "r.html", "--ood", tmp_path / "empty")
    assert code == 3
    assert "No images" in err
