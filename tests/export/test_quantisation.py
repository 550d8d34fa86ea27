"""Images for calibration, the loss of int8, and what of the graph stays in float."""

from __future__ import annotations

import numpy as np
import pytest

from filmtransfer import InputError
from filmtransfer.export import folded_graph, probe_images
from filmtransfer.export.parity import run_folded
from filmtransfer.export.quantisation import measure_loss, quantise, split_calibration
from filmtransfer.heads import HEADS
from tests.export.small_classifiers import SIDE, classifier, lite0


def test_one_image_cannot_calibrate_and_measure():
    with pytest.raises(InputError, match="at least two"):
        split_calibration(1)
    assert split_calibration(5) == ([0, 2, 4], [1, 3])


@pytest.mark.slow
@pytest.mark.parametrize("head", HEADS)
def test_int8_keeps_the_ood_detector_in_float(head):
    """The predictor gives the features of the int8 graph the same scores: only the features are quantised."""
    clf, pixels = classifier(lite0(), head), probe_images(SIDE, 24).numpy()
    quantised = quantise(folded_graph(clf, 0.49), [{"pixels": pixels}])
    outputs = run_folded(quantised)(pixels)
    predictions = clf.predictor_.predict(outputs["features"])
    assert np.abs(outputs["ood_score"] - clf.predictor_.ood_scores(predictions)).max() < 1e-5
    assert (outputs["rejected"] == clf.predictor_.rejected(predictions, 0.49)).all()
    assert 0 < outputs["rejected"].sum() < len(pixels)


def test_the_loss_includes_the_rejections():
    pixels = np.zeros((20, 1), np.uint8)
    probabilities = np.tile([0.9, 0.1], (20, 1))
    exact, approximate = np.arange(20) < 1, np.arange(20) < 3
    every = iter([0, 16, 0, 16])

    def run(rejected):
        def outputs(part):
            begin = next(every)
            rows = slice(begin, begin + len(part))
            return {"probabilities": probabilities[rows], "rejected": rejected[rows]}

        return outputs

    loss = measure_loss(run(exact), run(approximate), pixels, None, (4, 1))
    assert (loss.rejection_agreement, loss.rejected, loss.float_rejected) == (0.9, 0.15, 0.05)
    assert (
        "int8 and float agree for 90.0% of them on whether to reject (int8 rejects 15.0%, float 5.0%)"
        in loss.lines()
    )
    plain = lambda part: {"probabilities": probabilities[: len(part)]}  # noqa: E731
    without = measure_loss(plain, plain, pixels, None, (4, 1))
    assert without.rejection_agreement is None
    assert not [line for line in without.lines() if "reject" in line]
