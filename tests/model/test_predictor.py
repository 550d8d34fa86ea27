"""The posterior against its formula, rejection, and explanations against the covariance written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from filmtransfer.arrays import to_numpy
from filmtransfer.errors import InputError, UpdateFileError, UsageError
from filmtransfer.heads import HEADS, LDA, make_head
from filmtransfer.model import FeaturePredictor, Support, log_posterior, log_prior


def test_the_temperature_divides_the_logits_and_not_the_prior(rng):
    logits, prior = rng.normal(0, 3, (5, 3)), np.array([0.7, 0.2, 0.1])
    unnormalised = np.exp(logits / 2.5) * prior
    expected = unnormalised / unnormalised.sum(1, keepdims=True)
    for kind in (np.asarray, torch.tensor):
        computed = log_posterior(kind(logits), log_prior(prior.tolist(), [1, 1, 1]), 2.5)
        assert type(computed) is type(kind(logits))
        np.testing.assert_allclose(np.exp(to_numpy(computed)), expected, atol=1e-12)


def test_priors(rng):
    z = torch.tensor(rng.normal(0, 1, (6, 3)))
    y = torch.tensor([0, 0, 0, 0, 1, 1])
    head = LDA().to(torch.float64).configure(z, y)
    uniform, empirical, given = (
        np.log(FeaturePredictor.of(head, prior=prior).predict(z).probabilities)
        for prior in ("uniform", "empirical", [4.0, 2.0])
    )
    odds = (empirical - uniform)[:, 0] - (empirical - uniform)[:, 1]
    np.testing.assert_allclose(odds, np.log(4 / 2), atol=1e-12)
    np.testing.assert_allclose(given, empirical)
    with pytest.raises(InputError, match="2 positive numbers"):
        FeaturePredictor.of(head, prior=[1.0, -1.0])
    with pytest.raises(UsageError, match="uniform, empirical"):
        FeaturePredictor.of(head, prior="flat")


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_probabilities_are_the_softmax_of_scaled_logits(name, dtype, rng):
    z, y = torch.tensor(rng.normal(0, 1, (12, 5)), dtype=dtype), torch.arange(12) % 3
    head = make_head(name).to(dtype).configure(z, y)
    predictor = replace(FeaturePredictor.of(head, ["a", "b", "c"], [0.5, 0.3, 0.2]), temperature=1.7)
    predictions = predictor.predict(z)
    expected = np.exp(head.logits(z).detach().double().numpy() / 1.7) * [0.5, 0.3, 0.2]
    tolerance = 1e-9 if dtype == torch.float64 else 1e-6
    np.testing.assert_allclose(
        predictions.probabilities, expected / expected.sum(1, keepdims=True), rtol=0, atol=tolerance
    )
    np.testing.assert_array_equal(predictions.labels, predictions.probabilities.argmax(1))


def test_without_a_detector_nothing_can_be_rejected_and_without_support_nothing_explained(rng):
    z, y = torch.tensor(rng.normal(0, 1, (4, 3))), torch.tensor([0, 0, 1, 1])
    predictor = FeaturePredictor.of(LDA().to(torch.float64).configure(z, y))
    with pytest.raises(InputError, match="out-of-distribution"):
        predictor.rejected(predictor.predict(z))
    with pytest.raises(InputError, match="cannot be explained"):
        predictor.explain(z.numpy())


def kept(features, labels):
    count = len(labels)
    return Support(
        features,
        labels,
        np.ones(count, bool),
        [f"photo {i}" for i in range(count)],
        [""] * count,
    )


@pytest.mark.parametrize("name", ["lda", "qda", "protonets"])
@pytest.mark.parametrize("shape", [(12, 30), (40, 8)])  # fewer images than features, and more
def test_distances_are_mahalanobis(name, shape, rng):
    features = rng.normal(0, 1, shape).astype(np.float32)
    labels = np.arange(shape[0]) % 3
    head = make_head(name)
    query = rng.normal(0, 1, (4, shape[1])).astype(np.float32)
    z = features.astype(np.float64)
    sigma = np.eye(shape[1])
    if name != "protonets":
        *_, task, ridge = head.weights.values()
        sigma = task * np.cov(z.T) + ridge * np.eye(shape[1])
    inverse = np.linalg.inv(sigma)
    head.configure(features, labels)
    predictor = replace(FeaturePredictor.of(head), support=kept(features, labels))
    for row, explanation in zip(query.astype(np.float64), predictor.explain(query), strict=True):
        for c in range(3):
            d = row - z[labels == c].mean(0)
            assert explanation.distances[c] == pytest.approx(np.sqrt(d @ inverse @ d), rel=1e-6)
        far = [np.sqrt((row - x) @ inverse @ (row - x)) for x in z]
        assert [name for name, _, _ in explanation.nearest] == [f"photo {i}" for i in np.argsort(far)[:3]]
        assert [distance for _, _, distance in explanation.nearest] == pytest.approx(
            np.sort(far)[:3], rel=1e-6
        )


@pytest.mark.parametrize("scale", [1e19, 1e38])
def test_probabilities_that_are_not_finite_are_refused(scale):
    head = make_head("protonets").configure(
        np.eye(4, dtype=np.float32) * np.float32(scale), np.array([0, 0, 1, 1])
    )
    with pytest.raises(UpdateFileError, match="not finite"):
        FeaturePredictor.of(head).predict(np.full((1, 4), 1e38, np.float32))
