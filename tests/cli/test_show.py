"""fit show: the content of an update, and the parameter counts of a backbone."""

from __future__ import annotations

from tests.cli.running import SMALL, document


def test_the_stages_of_a_backbone(capsys):
    stages = document(capsys, "show", "--backbone", "bit_m_r50x1")["stages"]
    assert [s["film_from"] for s in stages] == [11_648, 11_648, 11_264, 10_240, 7_168, 4_096]
    assert sum(s["sites"] for s in stages) == 17


def test_the_papers_table_for_any_backbone(capsys):
    found = document(capsys, "show", "--backbone", "bit_m_r50x1", "--classes", "10")
    counts = {row["method"]: row["updateable"] for row in found["methods"]}
    assert counts == {
        "full fine-tuning (BiT)": 23_520_832,
        "FiT-QDA": 21_013_891,
        "FiT-LDA": 32_140,
        "FiT-ProtoNets": 32_128,
    }


def test_a_qda_update_reports_both_counts(trained, capsys, tmp_path):
    photos, _ = trained
    out = tmp_path / "q.safetensors"
    document(capsys, "train", str(photos), "--out", str(out), "--head", "qda", "--steps", "0", *SMALL)
    shown = document(capsys, "show", str(out))
    assert shown["updateable_numbers"] == 19_936 + 3 * 1280 + 3 * 1280 * 1281 // 2 + 3
    assert shown["stored_numbers"] == 19_936 + 12 * 1280 + 1280 + 12 + 3
