"""Update files of the last release load, and predict what they predicted when they were written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from filmtransfer import FewShotClassifier
from tests.conftest import picture

FOLDER = Path(__file__).parent / "released"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
PROBES = [np.asarray(picture(i, 1000 + i)) for i in range(6)]


@pytest.mark.parametrize("name", EXPECTED)
def test_a_released_file_predicts_the_same(name):
    expected = EXPECTED[name]
    classifier = FewShotClassifier.load(FOLDER / f"{name}.safetensors")
    classified = classifier.classify(PROBES)
    assert classifier.update_.classes == expected["classes"]
    assert classifier.update_.temperature == expected["temperature"]
    np.testing.assert_allclose(classified.probabilities, expected["probabilities"], rtol=0, atol=1e-5)
    scores = classifier.predictor_.ood_scores(classified.predictions)
    np.testing.assert_allclose(scores, expected["scores"], rtol=0, atol=1e-4)
    assert classifier.rejected(classified).tolist() == expected["rejected"]


def test_a_released_file_that_keeps_statistics_is_explained_and_edited():
    classifier = FewShotClassifier.load(FOLDER / "lda.safetensors")
    for explanation, (distances, nearest) in zip(
        classifier.explain(PROBES[:2]), EXPECTED["lda"]["explain"], strict=True
    ):
        assert explanation.distances == pytest.approx(distances, rel=1e-4)
        assert [list(photo)[:2] for photo in explanation.nearest] == [photo[:2] for photo in nearest]
    assert classifier.add([np.asarray(picture(1, 77))], "bars").update_.counts[0] == 6
