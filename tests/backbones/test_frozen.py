"""Folded backbones compute the same features and gradients."""

from __future__ import annotations

import pytest
import torch

from filmtransfer import backbones, film
from filmtransfer.backbones import build, load_backbone, record_for
from filmtransfer.backbones.frozen import ReLU6, fold_frozen_norms, standardise_weights


@torch.no_grad()
def test_weights_are_standardised_once():

    torch.manual_seed(0)
    model = build(record_for("bit_m_r50x1")).double()
    x = torch.randn(1, 3, 61, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    expected = model(x)
    assert standardise_weights(model) == 53
    assert (model(x) - expected).abs().max() <= 1e-10 * expected.abs().max()
    assert standardise_weights(model) == 0


def test_frozen_norms_are_folded_into_their_convolutions():
    plain, folded = load_backbone("efficientnet_lite0", fold=False), load_backbone("efficientnet_lite0")
    x = torch.randn(2, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected, features = plain.module(x), folded.module(x)
    assert (features - expected).abs().max() < 1e-5 * expected.abs().max()
    remaining = [m for m in folded.module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    assert len(remaining) == len(folded.sites)
    assert plain.digest == folded.digest


@pytest.mark.parametrize("name", ["resnet18", "regnetx_002", "mobilenetv3_small_050", "tf_efficientnetv2_b0"])
@torch.no_grad()
def test_folding_is_exact_for_every_family_with_batch_norm(name):
    from tests.film.test_attach import make

    model = make(name).double()
    x = torch.randn(2, 3, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = model(x)
    sites = backbones.film_sites(model)

    assert fold_frozen_norms(model, sites, 64) > 0
    assert (model(x) - expected).abs().max() < 1e-10 * expected.abs().max()
    assert all(isinstance(model.get_submodule(s), torch.nn.BatchNorm2d) for s in sites)


def test_relu6_equals_torchs():

    values = torch.tensor([-1.0, 0.0, 1e-8, 3.0, 6.0, 6.0000005, 9.0], dtype=torch.float64)
    results = []
    for activation in (torch.nn.ReLU6(), ReLU6()):
        x = values.clone().requires_grad_()
        y = activation(2 * x)  # a new tensor, since the activation works in place
        (y * torch.arange(1.0, 8.0)).sum().backward()
        results.append((y.detach(), x.grad))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])


@pytest.mark.slow
def test_folding_does_not_change_the_gradient_of_film():
    from filmtransfer.heads import make_head
    from filmtransfer.model import AdaptedModel

    pixels = torch.randint(0, 256, (3, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    gradients = []
    for fold in (False, True):
        model = AdaptedModel(load_backbone("efficientnet_lite0", fold=fold), make_head("lda"), 64).double()
        model.network(pixels.double() / 127.5 - 1).square().sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in film.parameters(model.network)]))
    assert (gradients[1] - gradients[0]).norm() <= 1e-5 * gradients[0].norm()  # folding is in float32
