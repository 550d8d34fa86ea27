"""Attach FiLM to a backbone, and read, load, count and fold its parameters ψ = {γ, β}.

Outside the network ψ is a plain dict: ``{"stages.0.blocks.0.norm3.gamma": (C,), …beta: (C,)}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..parameters import check_parameters
from .layer import FiLM

FilmParameters = dict[str, Tensor]


def attach(backbone: nn.Module, sites: Sequence[str]) -> nn.Module:
    """Freeze the backbone and replace the norms at ``sites`` by FiLM layers; works in place."""
    backbone.eval().requires_grad_(False)
    for site in sites:
        norm = backbone.get_submodule(site)
        if not isinstance(norm, FiLM):
            backbone.set_submodule(site, FiLM(norm))
    return set_trainable(backbone, list(layers(backbone)))  # including layers attached before


def set_trainable(backbone: nn.Module, sites: Sequence[str]) -> nn.Module:
    """Make the FiLM parameters at ``sites`` the only trainable parameters of the backbone."""
    backbone.requires_grad_(False)
    for parameter in parameters(backbone, sites):
        parameter.requires_grad_(True)
    return backbone


def layers(backbone: nn.Module) -> dict[str, FiLM]:
    """Return the FiLM layers by site, in the order of the network."""
    return {name: m for name, m in backbone.named_modules() if isinstance(m, FiLM)}


def parameters(backbone: nn.Module, sites: Sequence[str] | None = None) -> list[nn.Parameter]:
    """Return ψ, or that of some sites, as a list for an optimiser."""
    return [parameter for _, parameter in _named(backbone, sites)]


def count(backbone: nn.Module) -> int:
    """Return |ψ|, the number of FiLM parameters."""
    return sum(p.numel() for p in parameters(backbone))


def read(backbone: nn.Module, sites: Sequence[str] | None = None) -> FilmParameters:
    """Return a copy of ψ, or that of some sites, by name."""
    return {name: parameter.detach().clone() for name, parameter in _named(backbone, sites)}


def load(backbone: nn.Module, values: Mapping[str, Tensor], sites: Sequence[str] | None = None) -> None:
    """Set ψ at ``sites``, and γ = 1, β = 0 at all others.

    Names and shapes have to match and all values have to be finite; otherwise nothing is changed.
    """
    targets = dict(_named(backbone, sites))
    check_parameters({name: tuple(p.shape) for name, p in targets.items()}, values)
    reset(backbone)
    with torch.no_grad():
        for name, parameter in targets.items():
            parameter.copy_(values[name])


def reset(backbone: nn.Module) -> None:
    """Set γ = 1 and β = 0, which is the backbone without FiLM."""
    with torch.no_grad():
        for layer in layers(backbone).values():
            layer.gamma.fill_(1)
            layer.beta.fill_(0)


@contextmanager
def per_sample(backbone: nn.Module, updates: Sequence[Mapping[str, Tensor]]) -> Iterator[None]:
    """Within the context, row i of every batch is computed with the FiLM parameters ``updates[i]``.

    At sites that an update does not contain (``film_from``), γ = 1 and β = 0.
    """
    known = {name for name, _ in _named(backbone, None)}
    if unknown := sorted({name for update in updates for name in update} - known):
        raise InputError(f"The FiLM parameters belong to another backbone (the first: {unknown[0]}).")
    try:
        for site, layer in layers(backbone).items():
            one, zero = torch.ones_like(layer.gamma.data), torch.zeros_like(layer.beta.data)
            layer.rows = (
                torch.stack([update.get(f"{site}.gamma", one).to(one) for update in updates]),
                torch.stack([update.get(f"{site}.beta", zero).to(zero) for update in updates]),
            )
        yield
    finally:
        for layer in layers(backbone).values():
            layer.rows = None


def fold(backbone: nn.Module) -> nn.Module:
    """Fold FiLM into the affine transformations of the norms and remove its layers; works in place."""
    for site, layer in layers(backbone).items():
        norm = layer.norm
        weight, bias = layer.affine()
        with torch.no_grad():
            norm.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
            norm.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
        backbone.set_submodule(site, norm)
    return backbone


def _named(backbone: nn.Module, sites: Sequence[str] | None) -> Iterator[tuple[str, nn.Parameter]]:
    for site, layer in layers(backbone).items():
        if sites is None or site in sites:
            yield f"{site}.gamma", layer.gamma
            yield f"{site}.beta", layer.beta
