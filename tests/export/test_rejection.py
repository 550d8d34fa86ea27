"""The threshold that travels with an export, or the reason why there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from filmtransfer import UsageError
from filmtransfer.export.rejection import Rejection
from filmtransfer.heads import make_head
from filmtransfer.model import FeaturePredictor, OODDetector


def predictor(scores: int | None) -> FeaturePredictor:
    """Return a predictor of two classes with so many leave-one-out scores."""
    rng = np.random.default_rng(0)
    features, labels = rng.normal(size=(8, 4)).astype(np.float32), np.arange(8) % 2
    plain = FeaturePredictor.of(make_head("protonets").configure(features, labels))
    if scores is None:
        return plain
    return replace(
        plain, ood=OODDetector.fit(features, labels, rng.normal(size=scores), rng.normal(size=(scores, 2)))
    )


def test_the_threshold_is_the_predictors():
    able = predictor(30)
    for rate, text in ((0.05, "5%"), (0.005, "0.5%")):
        rejection = Rejection.of(able, rate)
        assert rejection.metadata() == {"threshold": able.threshold(rate), "false_alarm": rate}
        assert rejection.outputs == ("ood_score", "rejected")
        assert rejection.line().endswith(f"at a false-alarm rate of {text}.")
    assert Rejection.of(able, 0.1).threshold > Rejection.of(able, 0.01).threshold


@pytest.mark.parametrize("scores", [None, 2])
def test_too_few_photos_are_the_reason_for_no_threshold(scores):
    rejection = Rejection.of(predictor(scores))
    assert rejection.metadata() is None
    assert rejection.outputs == ()
    assert rejection.line().startswith("It does not reject photos: ")
    assert "leave-one-out scores" in rejection.line()


def test_an_impossible_rate_is_refused_even_without_a_detector():
    for scores in (None, 30):
        with pytest.raises(UsageError, match=r"false-alarm rate cannot be 0\.7"):
            Rejection.of(predictor(scores), 0.7)
