"""fit demo."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer import FewShotClassifier
from filmtransfer.data import LabelledImages, sample
from filmtransfer.data.sample import sample_drawings
from tests.cli.running import document, width


@pytest.mark.slow(seconds=25)
def test_the_demo_trains_tests_and_writes_its_files(capsys, tmp_path, monkeypatch):
    def few_to_test(*arguments: int) -> tuple[LabelledImages, LabelledImages]:
        training, test = sample_drawings(*arguments)
        assert len(test) == 1080
        return training, replace(test, sources=test.sources[::5], labels=test.labels[::5])

    monkeypatch.setattr(sample, "sample_drawings", few_to_test)
    found = document(capsys, "demo", "--out", str(tmp_path / "out"))
    assert found["held_out"] == 216
    assert found["before"]["interval"][0] > 0.5
    assert found["after"]["accuracy"] > found["before"]["accuracy"] - 0.02
    # Four bytes a parameter, one for each class and feature, and the metadata.
    assert found["compact_bytes"] < 165_000
    # Two bytes for each drawing and feature, and its name.
    assert found["bytes"] < found["compact_bytes"] + 120 * (2 * 1280 + 120)
    assert FewShotClassifier.load(found["file"]).update_.classes == found["classes"]
    assert width(found["picture"]) > 1000
