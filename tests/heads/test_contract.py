"""What the package asks of any head, for every registered head."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from filmtransfer import heads
from filmtransfer.errors import UsageError
from filmtransfer.heads import HEADS, Statistics, class_means, make_head, map_state
from filmtransfer.heads.head import options_of

TALL, WIDE = (30, 6), (12, 20)  # N > D and N ≤ D
# A value that is not the default, for every option that changes the result (the weights ``start`` are stored apart).
OTHER = {"covariance": "pooled", "divisor": "n", "temperature": 3.0, "penalty": 0.5, "max_iterations": 7}


def problem(shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(shape[0]) % 3
    centres = 2 * torch.randn(3, shape[1], generator=generator, dtype=dtype)
    features = 1 + centres[labels] + torch.randn(*shape, generator=generator, dtype=dtype)
    return features, labels, 1 + 2 * torch.randn(5, shape[1], generator=generator, dtype=dtype)


def relative(logits):
    return (logits - logits.mean(1, keepdim=True)).detach()


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("name", HEADS)
def test_stored_tensors_have_the_declared_shapes_and_restore_the_head(name, shape):
    z, y, q = problem(shape, torch.float32)
    with torch.no_grad():
        head = make_head(name).configure(z, y)
        head.set_log_weights(None if head.log_weights() is None else head.log_weights() + 0.1)
        head.configure(z, y)
        tensors = head.tensors()
        shapes = {key: tuple(tensor.shape) for key, tensor in tensors.items()}
        assert shapes in HEADS[name].stored_shapes(3, shape[1], shape[0])
        assert {t.dtype for key, t in tensors.items() if key != "labels"} == {torch.float32}
        again = make_head(name, **head.options())
        again.set_log_weights(head.log_weights())
        assert torch.equal(again.restore(tensors, head.counts).logits(q), head.logits(q))


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("name", HEADS)
def test_the_export_form_is_the_head(name, shape):
    z, y, q = problem(shape, torch.float32)
    with torch.no_grad():
        head = make_head(name).configure(z, y)
        r, s = head.scores()(q.numpy())
        expected = head.logits(q).numpy()
        assert float(np.abs(r + s - expected).max()) < 1e-5 * max(1.0, float(np.abs(expected).max()))


@pytest.mark.parametrize("name", [name for name, head in HEADS.items() if head.scatter is not None])
def test_a_head_that_can_be_built_from_statistics_equals_the_pooled_one(name):
    z, y, q = problem(TALL)
    scatter = HEADS[name].scatter
    parts = [Statistics.of(z[rows], y[rows], 3, scatter) for rows in (slice(0, 11), slice(11, None))]
    head = make_head(name).to(torch.float64)
    expected = relative(head.configure(z, y).logits(q))
    np.testing.assert_allclose(
        relative(head.configure_from(parts[0] + parts[1]).logits(q)), expected, atol=1e-8
    )


@pytest.mark.parametrize("name", [name for name, head in HEADS.items() if head.scatter is None])
def test_a_head_that_cannot_be_built_from_statistics_says_so(name):
    z, y, _ = problem(TALL)
    with pytest.raises(UsageError, match="statistics"):
        make_head(name).configure_from(Statistics.of(z, y))


@pytest.mark.parametrize("name", [name for name, head in HEADS.items() if head.trained_by == "episodes"])
def test_the_state_is_all_that_evaluation_needs(name):
    """The fine-tuning step cuts the graph at the state, and users share heads whose states differ."""
    z, y, q = problem(WIDE)
    z.requires_grad_()
    head = make_head(name).to(torch.float64)
    whole = torch.autograd.grad(head.evaluate(head.build(z, y), q)[:, 0].sum(), [z, *head.parameters()])
    state = head.build(z, y)
    copies = map_state(lambda t: t.detach().requires_grad_(t.requires_grad), state)
    head.evaluate(copies, q)[:, 0].sum().backward()
    pairs = [(t, c.grad) for t, c in zip(state, copies, strict=True) if c.grad is not None]
    parts = torch.autograd.grad([t for t, _ in pairs], [z, *head.parameters()], [g for _, g in pairs])
    for one, two in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-9)
    assert torch.equal(make_head(name).to(torch.float64).evaluate(state, q), head.evaluate(state, q))


@pytest.mark.parametrize("name", HEADS)
def test_a_head_describes_itself(name):
    head = make_head(name)
    assert HEADS[name].description
    weights = head.log_weights()
    assert len(HEADS[name].weight_names) == (0 if weights is None else len(weights))
    words = HEADS[name].describe_weights(weights)
    assert all(weight in words for weight in HEADS[name].weight_names or ["none"])
    z, y, _ = problem(WIDE)
    stored = sum(t.numel() for t in head.to(torch.float64).configure(z, y).tensors().values())
    assert stored >= 3 * 20


@pytest.mark.parametrize("name", HEADS)
def test_the_papers_count_is_that_of_the_tensors_stored_where_examples_are_many(name):
    z, y, _ = problem(TALL)
    stored = sum(t.numel() for t in make_head(name).to(torch.float64).configure(z, y).tensors().values())
    assert HEADS[name].updateable(3, TALL[1]) == stored + len(HEADS[name].weight_names)


@pytest.mark.parametrize("name", HEADS)
def test_options_make_a_head_like_this_one(name):
    taken = [option for option in options_of(HEADS[name]) if option not in ("start", "side")]
    for option in taken:
        head = make_head(name, **{option: OTHER[option]})
        assert head.options()[option] == OTHER[option]
        assert vars(make_head(name, **head.options()))[option] == OTHER[option]
    defaults = {"lda": {"covariance": "task", "divisor": "n-1"}, "qda": {"divisor": "n-1"}}
    assert make_head(name).options() == defaults.get(name, {})  # stored in every update file


def test_class_means_are_the_means_of_the_rows_of_each_class():
    z, y, _ = problem(TALL)
    torch.testing.assert_close(class_means(z, y), torch.stack([z[y == c].mean(0) for c in range(3)]))


def test_heads_do_not_import_torch():
    """Prediction is arithmetic on arrays; only the solver of the linear head and training need torch."""
    for path in Path(heads.__file__).parent.glob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            assert not re.match(r"(from|import) torch", line), f"{path.name}: {line}"


@pytest.mark.parametrize("shape", [TALL, WIDE])
@pytest.mark.parametrize("name", HEADS)
def test_arrays_give_the_same_head_as_tensors(name, shape):
    """float64 to rounding; float32, in which updates are stored, to 1e-5 of the logits' spread."""
    for dtype, tolerance in ((torch.float64, 1e-10), (torch.float32, 1e-5)):
        z, y, q = problem(shape, dtype)
        tensors, arrays = make_head(name).to(dtype), make_head(name)
        with torch.no_grad():
            expected = tensors.configure(z, y).logits(q).numpy()
            stored = tensors.tensors()
        logits = arrays.configure(z.numpy(), y.numpy()).logits(q.numpy())
        assert isinstance(logits, np.ndarray)
        scale = tolerance * max(1.0, float(np.ptp(expected)))
        np.testing.assert_allclose(logits, expected, atol=scale)
        for key, array in arrays.tensors().items():
            assert array.dtype == stored[key].numpy().dtype
            np.testing.assert_allclose(array, stored[key].numpy(), atol=100 * scale)
        restored = make_head(name).restore({k: v.numpy() for k, v in stored.items()}, y.bincount().numpy())
        np.testing.assert_allclose(restored.logits(q.numpy()), expected, atol=scale)
        with torch.no_grad():
            distances = tensors.distances(z, q, z).numpy()
        np.testing.assert_allclose(
            arrays.distances(z.numpy(), q.numpy(), z.numpy()),
            distances,
            atol=30 * tolerance * distances.max(),
        )


@pytest.mark.parametrize("name", [name for name, head in HEADS.items() if head.scatter is not None])
def test_statistics_of_arrays_give_the_same_head_as_those_of_tensors(name):
    z, y, q = problem(TALL)
    scatter = HEADS[name].scatter
    with torch.no_grad():
        head = make_head(name).to(torch.float64)
        expected = head.configure_from(Statistics.of(z, y, 3, scatter)).logits(q).numpy()
    arrays = make_head(name).configure_from(Statistics.of(z.numpy(), y.numpy(), 3, scatter))
    np.testing.assert_allclose(arrays.logits(q.numpy()), expected, atol=1e-9)


@pytest.mark.parametrize("name", HEADS)
def test_options_are_checked_by_the_head(name):
    with pytest.raises(UsageError, match="has no option 'surprise'"):
        make_head(name, surprise=1)
    if HEADS[name].weight_names:
        for wrong in ([1.0] * 7, [-1.0] * len(HEADS[name].weight_names), "abc", 3):
            with pytest.raises(UsageError, match=f"for each of {', '.join(HEADS[name].weight_names)}"):
                make_head(name, start=wrong)


def test_the_papers_start_suits_every_gaussian_head():
    assert make_head("qda", start="paper").weights.values().tolist() == pytest.approx([0.5, 0.5, 1.0])
    assert make_head("lda", start="paper").weights.values().tolist() == pytest.approx([0.5, 1.0])


@pytest.mark.parametrize("name", HEADS)
def test_distances_are_a_metric_on_the_support(name):
    z, y, _ = problem(WIDE)
    head = make_head(name).to(torch.float64).configure(z, y)
    with torch.no_grad():
        distances = head.distances(z, z, z)
    torch.testing.assert_close(distances, distances.mT, rtol=1e-6, atol=1e-6)
    assert float(distances.diagonal().max()) < 1e-5
    assert float((distances + torch.eye(len(z))).min()) > 0


def test_every_head_is_named_in_the_documentation_of_both_entry_points():
    from filmtransfer import FewShotClassifier
    from filmtransfer.cli.train import train

    option = next(p for p in inspect.signature(train).parameters.values() if p.name == "head")
    (help_text,) = (item.help for item in option.annotation.__metadata__)
    for name in HEADS:
        assert f'"{name}"' in FewShotClassifier.__doc__
        assert name in help_text
