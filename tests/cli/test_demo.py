"""fit demo."""

from __future__ import annotations

import pytest

from filmtransfer import FewShotClassifier
from tests.cli.running import document, width


@pytest.mark.slow(seconds=40)
def test_the_demo_trains_tests_and_writes_its_files(capsys, tmp_path):
    found = document(capsys, "demo", "--out", str(tmp_path / "out"))
    assert found["held_out"] == 1080
    assert found["before"]["interval"][0] > 0.5
    assert found["after"]["accuracy"] > found["before"]["accuracy"] - 0.02
    # Four bytes a parameter, one for each class and feature, and the metadata.
    assert found["compact_bytes"] < 165_000
    # Two bytes for each drawing and feature, and its name.
    assert found["bytes"] < found["compact_bytes"] + 120 * (2 * 1280 + 120)
    assert FewShotClassifier.load(found["file"]).update_.classes == found["classes"]
    assert width(found["picture"]) > 1000
