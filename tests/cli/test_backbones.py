"""fit backbones."""

from __future__ import annotations

from tests.cli.running import document


def test_backbones_are_listed(capsys):
    rows = {row["name"]: row for row in document(capsys, "backbones")["backbones"]}
    assert rows["efficientnet_lite0"]["usable"] is True
    assert rows["bit_m_r50x1"]["film_numbers"] == 11_648
    assert rows["regnety_008"]["licence"] == "MIT"
