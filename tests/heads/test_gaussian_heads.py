"""The heads against scipy's Gaussian densities, finite differences and each other."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from filmtransfer.errors import InputError, UsageError
from filmtransfer.heads import HEADS, LDA, QDA, Linear, Mahalanobis, ProtoNets, Statistics, make_head
from filmtransfer.heads.gaussian import Divisor, Side
from filmtransfer.model import log_posterior
from tests.reference import gaussian as oracle

SIDES = get_args(Side)
DIVISORS = get_args(Divisor)
# Options that change how a head is built: each is one more variant of it.
VARIANTS = {name: (name, {}) for name in HEADS} | {
    "pooled": ("lda", {"covariance": "pooled"}),
    "qda-columns": ("qda", {"side": "columns"}),
    "mahalanobis-columns": ("mahalanobis", {"side": "columns"}),
}
SUMMED = [name for name, (head, _) in VARIANTS.items() if HEADS[head].scatter is not None]


@st.composite
def problems(draw):
    """Shapes that matter: N < D, N > D, one-example classes, unequal counts."""
    classes = draw(st.integers(2, 5))
    counts = draw(st.lists(st.integers(1, 7), min_size=classes, max_size=classes))
    dimension = draw(st.integers(1, 24))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    labels = rng.permutation(np.repeat(np.arange(classes), counts))
    centres = rng.normal(0, 2, (classes, dimension)) + rng.normal(0, 5, dimension)
    features = centres[labels] + rng.normal(0, 1, (len(labels), dimension))
    query = centres[rng.integers(0, classes, 6)] + rng.normal(0, 1.5, (6, dimension))
    return features, labels, query


def tensors(*arrays, dtype=torch.float64):
    return [torch.as_tensor(a, dtype=dtype if a.dtype.kind == "f" else torch.int64) for a in arrays]


def new(variant):
    name, options = VARIANTS[variant]
    return make_head(name, **options)


def relative(logits):
    """Logits are defined up to one constant per image."""
    return logits - logits.mean(1, keepdims=True)


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(SIDES), st.sampled_from(DIVISORS))
def test_lda_is_the_gaussian_density(problem, side, divisor):
    features, labels, query = problem
    head = LDA((0.7, 1.3), side=side, divisor=divisor).to(torch.float64)
    z, y, q = tensors(*problem)
    got = head.configure(z, y).logits(q).detach().numpy()
    want = oracle.lda(query, features, labels, (0.7, 1.3), divisor)
    np.testing.assert_allclose(relative(got), relative(want), atol=1e-8)
    np.testing.assert_allclose(
        log_posterior(head.logits(q)).exp().detach().numpy(), oracle.softmax(want), atol=1e-8
    )


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(SIDES), st.sampled_from(DIVISORS))
def test_qda_is_the_gaussian_density(problem, side, divisor):
    features, labels, query = problem
    z, y, q = tensors(*problem)
    head = QDA(side=side, divisor=divisor).to(torch.float64).configure(z, y)
    want = oracle.qda(query, features, labels, divisor=divisor)
    constant = features.shape[1] / 2 * np.log(2 * np.pi)
    np.testing.assert_allclose(head.logits(q).detach().numpy() - constant, want, atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(problems())
def test_protonets_is_the_squared_distance_and_the_gaussian_with_half_identity(problem):
    features, labels, query = problem
    z, y, q = tensors(*problem)
    got = ProtoNets().configure(z, y).logits(q).numpy()
    np.testing.assert_allclose(got, oracle.protonets(query, features, labels), atol=1e-9)
    means = oracle.class_means(features, labels)
    density = oracle.log_densities(query, means, [np.eye(features.shape[1]) / 2] * len(means))
    np.testing.assert_allclose(relative(got), relative(density), atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(problems())
def test_qda_without_class_weight_is_lda(problem):
    z, y, q = tensors(*problem)
    lda = LDA((0.8, 1.1)).to(torch.float64).configure(z, y).logits(q)
    for side in ("rows", "columns"):
        qda = QDA((1e-300, 0.8, 1.1), side=side).to(torch.float64).configure(z, y).logits(q)
        np.testing.assert_allclose(relative(qda.detach().numpy()), relative(lda.detach().numpy()), atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(problems())
def test_pooled_covariance_on_both_sides(problem):
    features, labels, query = problem
    z, y, q = tensors(*problem)
    want = relative(oracle.lda(query, features, labels, pooled=True))
    for side in ("rows", "columns"):
        got = LDA(covariance="pooled", side=side).to(torch.float64).configure(z, y).logits(q)
        np.testing.assert_allclose(relative(got.detach().numpy()), want, atol=1e-8)


def test_pooled_lda_is_scikit_learns_as_the_ridge_vanishes(rng):
    labels = np.repeat(np.arange(3), 40)
    features = rng.normal(0, 1, (120, 5)) + rng.normal(0, 2, (3, 5))[labels]
    query = rng.normal(0, 2, (50, 5))
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=[1 / 3] * 3).fit(features, labels)
    z, y, q = tensors(features, labels, query)
    ours = log_posterior(
        LDA((1.0, 1e-9), covariance="pooled", divisor="n").to(torch.float64).configure(z, y).logits(q)
    ).exp()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.predict_proba(query), atol=1e-5)


@pytest.mark.parametrize("head", [LDA(), LDA(covariance="pooled"), QDA(), Mahalanobis()])
@pytest.mark.parametrize(("dtype", "atol"), [(torch.float32, 2e-3), (torch.float64, 1e-9)])
def test_rows_and_columns_agree_at_the_size_of_real_features(head, dtype, atol, rng):
    labels = np.repeat(np.arange(5), 8)
    features = np.abs(rng.normal(0.4, 0.4, (40, 320))) + rng.normal(0, 0.3, (5, 320))[labels]
    query = np.abs(rng.normal(0.4, 0.4, (20, 320)))
    z, y, q = tensors(features, labels, query, dtype=dtype)
    head = head.to(dtype)
    results = []
    for side in ("rows", "columns"):
        head.side = side
        results.append(relative(head.configure(z, y).logits(q).detach().numpy()))
    np.testing.assert_allclose(results[0], results[1], atol=atol)


@pytest.mark.parametrize("side", ["rows", "columns"])
@pytest.mark.parametrize("make", [LDA, QDA, lambda **k: LDA(covariance="pooled", **k)])
def test_gradients_are_those_of_finite_differences(make, side, rng):
    labels = torch.tensor([0, 0, 1, 1, 2, 0])  # class 2 has one example
    z = torch.tensor(rng.normal(0, 1, (6, 4)), requires_grad=True)
    q = torch.tensor(rng.normal(0, 1, (3, 4)), requires_grad=True)
    head = make(side=side).to(torch.float64)

    def loss(z, q, log):
        head.weights.values = lambda: log.exp()
        return torch.log_softmax(head.evaluate(head.build(z, labels), q), 1)

    log = head.weights.log.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, (z, q, log), atol=1e-6)


@given(problems(), st.floats(0.01, 1000))
def test_a_temperature_divides_the_distances(problem, temperature):
    features, labels, query = problem
    z, y, q = tensors(features, labels, query)
    plain, warm = (ProtoNets(t).configure(z, y).logits(q) for t in (1.0, temperature))
    np.testing.assert_allclose(warm.numpy() * temperature, plain.numpy(), rtol=1e-9, atol=1e-9)
    again = make_head("protonets", **ProtoNets(temperature).options())
    assert again.temperature == temperature


@pytest.mark.parametrize("temperature", [0, -1.0, float("inf"), float("nan")])
def test_a_temperature_is_above_zero(temperature):
    with pytest.raises(UsageError, match="temperature"):
        ProtoNets(temperature)


def test_protonets_gradient(rng):
    labels = torch.tensor([0, 0, 1, 1])
    z = torch.tensor(rng.normal(0, 1, (4, 3)), requires_grad=True)
    q = torch.tensor(rng.normal(0, 1, (2, 3)), requires_grad=True)
    head = ProtoNets()
    assert torch.autograd.gradcheck(lambda z, q: head.evaluate(head.build(z, labels), q), (z, q))


def test_linear_is_scikit_learns_logistic_regression(rng):
    from sklearn.linear_model import LogisticRegression

    labels = np.repeat(np.arange(3), 12)
    features = rng.normal(0, 1, (36, 6)) + rng.normal(0, 1.5, (3, 6))[labels]
    query = rng.normal(0, 2, (20, 6))
    z, y, q = tensors(features, labels, query)
    ours = log_posterior(Linear(penalty=2.0).configure(z, y).logits(q)).exp().numpy()
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10000).fit(features, labels)
    np.testing.assert_allclose(ours, theirs.predict_proba(query), atol=1e-5)


def test_options_of_the_linear_head_are_checked_and_stop_the_solver(rng):
    for wrong in (-1, 0, 2.5, True, "many", None):
        with pytest.raises(UsageError, match="max_iterations"):
            Linear(max_iterations=wrong)
    z, y, q = tensors(rng.normal(0, 1, (9, 4)), np.arange(9) % 3, rng.normal(0, 1, (2, 4)))
    stopped = Linear(max_iterations=1)
    again = make_head("linear", **stopped.options())
    assert torch.equal(again.configure(z, y).logits(q), stopped.configure(z, y).logits(q))
    assert not torch.allclose(again.logits(q), Linear().configure(z, y).logits(q), atol=1e-3)


@settings(max_examples=30, deadline=None)
@given(
    problems(),
    st.sampled_from(DIVISORS),
    st.sampled_from([("lda", (0.7, 1.3)), ("qda", (0.4, 0.7, 1.3)), ("mahalanobis", (1.0, 1.0))]),
)
def test_distances_are_those_of_the_task_covariance(problem, divisor, head_and_weights):
    features, _, query = problem
    name, weights = head_and_weights
    if HEADS[name].weight_names:
        head = make_head(name, start=weights, divisor=divisor).to(torch.float64)
    else:
        head, divisor = make_head(name), "n-1"
    z, _, q = tensors(*problem)
    sigma = weights[-2] * oracle.task_covariance(features, divisor) + weights[-1] * np.eye(features.shape[1])
    inverse = np.linalg.inv(sigma)
    offsets = query[:, None] - features[None]
    want = np.sqrt(np.einsum("qnd,de,qne->qn", offsets, inverse, offsets))
    with torch.no_grad():
        np.testing.assert_allclose(head.distances(z, q, z).numpy(), want, atol=1e-6)


@settings(max_examples=30, deadline=None)
@given(problems(), st.sampled_from(SUMMED))
def test_a_head_is_rebuilt_from_summed_statistics(problem, variant):
    z, y, q = tensors(*problem)
    classes = int(y.max()) + 1
    head = new(variant).to(torch.float64)
    scatter = type(head).scatter
    cut = len(z) // 2
    parts = [
        Statistics.of(z[:cut], y[:cut], classes, scatter),
        Statistics.of(z[cut:], y[cut:], classes, scatter),
    ]
    want = relative(head.configure(z, y).logits(q).detach().numpy())
    got = relative(head.configure_from(parts[0] + parts[1]).logits(q).detach().numpy())
    np.testing.assert_allclose(got, want, atol=1e-7)
    back = parts[0] + parts[1] - parts[1]
    np.testing.assert_allclose(back.sums.numpy(), parts[0].sums.numpy(), atol=1e-10)
    assert torch.equal(back.counts, parts[0].counts)


@settings(max_examples=25, deadline=None)
@given(problems(), st.sampled_from(list(VARIANTS)))
def test_compact_form_gives_the_same_head_bit_for_bit(problem, variant):
    z, y, q = tensors(*problem, dtype=torch.float32)
    with torch.no_grad():
        head = new(variant).configure(z, y)
        again = new(variant).restore(head.tensors(), head.counts)
        assert torch.equal(head.logits(q), again.logits(q))


def test_low_rank_qda_is_stored_by_its_rows_not_by_its_covariances(rng):
    z = torch.tensor(rng.normal(0, 1, (100, 1280)), dtype=torch.float32)
    y = torch.arange(10).repeat_interleave(10)
    with torch.no_grad():
        stored = sum(t.numel() for t in QDA().configure(z, y).tensors().values())
    assert stored == 100 * 1280 + 1280 + 100
    assert QDA.updateable(10, 1280) > 60 * stored


def test_paper_counts():
    """Table 'Shared and updateable parameters', C = 10, D = 2048, |ψ| = 11,648."""
    film = 11_648
    assert film + LDA.updateable(10, 2048) == 32_140
    assert film + ProtoNets.updateable(10, 2048) == 32_128
    assert film + QDA.updateable(10, 2048) == 21_013_891


def test_covariance_weights_start_where_asked_and_stay_positive():
    np.testing.assert_array_equal(LDA().weights.values(), np.ones(2))
    np.testing.assert_allclose(QDA().weights.values(), [0.5, 0.5, 1.0], rtol=1e-6)
    head = LDA((0.5, 1.0))
    step = torch.optim.SGD(head.parameters(), lr=50.0)
    head.weights.values().sum().backward()
    step.step()
    assert bool((head.weights.values() > 0).all())
    with pytest.raises(UsageError, match="positive"):
        LDA((0.0, 1.0))


@settings(max_examples=40, deadline=None)
@given(problems(), st.sampled_from(list(VARIANTS)), st.data())
def test_labels_may_have_gaps(problem, variant, data):
    z, y, q = tensors(*problem)
    classes = int(y.max()) + 1
    names = sorted(data.draw(st.sets(st.integers(-9, 99), min_size=classes, max_size=classes)))
    gapped = torch.tensor(names)[y]
    with torch.no_grad():
        want = new(variant).to(torch.float64).configure(z, y)
        got = new(variant).to(torch.float64).configure(z, gapped)
    assert got.classes.tolist() == names
    assert torch.equal(got.logits(q), want.logits(q))
    assert torch.equal(got.counts, want.counts)


def test_statistics_of_some_classes(rng):
    z, y = torch.tensor(rng.normal(0, 1, (9, 4))), torch.arange(3).repeat(3)
    by_class = Statistics.of(z, y, scatter="class").select([2, 0])
    assert torch.equal(by_class.sums, Statistics.of(z, y, scatter="none").select([2, 0]).sums)
    kept = y != 1
    want = QDA().to(torch.float64).configure(z[kept], 1 - y[kept] // 2)
    got = QDA().to(torch.float64).configure_from(by_class)
    np.testing.assert_allclose(got.logits(z).detach().numpy(), want.logits(z).detach().numpy(), atol=1e-8)
    with pytest.raises(InputError, match="cannot be divided"):
        Statistics.of(z, y, scatter="task").select([0])


def test_bad_support_is_named():
    with pytest.raises(InputError, match="no support example"):
        LDA().build(torch.zeros(2, 3), torch.tensor([0, 2]))
    with pytest.raises(InputError, match="do not fit"):
        LDA().configure(torch.zeros(2, 3), torch.tensor([0, 1, 1]))
    with pytest.raises(InputError, match="empty"):
        LDA().configure(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long))
    with pytest.raises(InputError, match="configure"):
        LDA().logits(torch.zeros(1, 3))
    with pytest.raises(UsageError, match=", ".join(HEADS)):
        make_head("svm")


@pytest.mark.parametrize("kind", ["array", "tensor"])
def test_qda_of_one_large_class_among_many_small_ones_stays_small(rng, kind):
    sizes = [1] * 90 + [2] * 4 + [3, 60]
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    features, query = rng.normal(size=(len(labels), 200)), rng.normal(size=(9, 200))
    if kind == "tensor":
        features, query, labels = map(torch.from_numpy, (features, query, labels))
    with torch.no_grad():
        head = QDA(side="rows").match(features).configure(features, labels)
        entries = sum(math.prod(array.shape) for array in head.configured())
        assert entries < 5 * len(labels) ** 2 + 3 * len(labels) * 320, (
            "padding every class to 60 takes 626,400"
        )
        columns = QDA(side="columns").match(features).configure(features, labels)
        got, want = (np.asarray(one.logits(query)) for one in (head, columns))
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-8)
        relative, shared = head.scores().map(lambda _, array: array.astype(np.float64))(np.asarray(query))
    np.testing.assert_allclose(relative + shared, want, rtol=1e-5, atol=1e-3)
