"""Put FiLM into a backbone, and read, load, count and fold its numbers.

FiLM numbers travel as a plain dict: ``{"stages.0.blocks.0.norm3.gamma": (C,), …beta: (C,)}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import InputError, UpdateFileError
from .layer import FiLM

FilmParameters = dict[str, Tensor]


def attach(backbone: nn.Module, sites: Sequence[str]) -> nn.Module:
    """Freeze the backbone and replace the norms at ``sites`` by FiLM; works in place."""
    backbone.eval().requires_grad_(False)
    for site in sites:
        norm = backbone.get_submodule(site)
        if not isinstance(norm, FiLM):
            _put(backbone, site, FiLM(norm))
    return set_trainable(backbone, list(layers(backbone)))  # also where FiLM was attached before


def set_trainable(backbone: nn.Module, sites: Sequence[str]) -> nn.Module:
    """Let the FiLM numbers at ``sites`` be learned, and no other number of the backbone."""
    backbone.requires_grad_(False)
    for parameter in parameters(backbone, sites):
        parameter.requires_grad_(True)
    return backbone


def layers(backbone: nn.Module) -> dict[str, FiLM]:
    """The FiLM layers by site name, in the order of the network."""
    return {name: m for name, m in backbone.named_modules() if isinstance(m, FiLM)}


def parameters(backbone: nn.Module, sites: Sequence[str] | None = None) -> list[nn.Parameter]:
    """ψ, or that of some sites, as a list for an optimiser."""
    return [parameter for _, parameter in _named(backbone, sites)]


def count(backbone: nn.Module) -> int:
    """|ψ|, the number of FiLM numbers."""
    return sum(p.numel() for p in parameters(backbone))


def read(backbone: nn.Module, sites: Sequence[str] | None = None) -> FilmParameters:
    """A copy of ψ, or that of some sites, by site name."""
    return {name: parameter.detach().clone() for name, parameter in _named(backbone, sites)}


def load(backbone: nn.Module, numbers: Mapping[str, Tensor], sites: Sequence[str] | None = None) -> None:
    """Set ψ (at ``sites``; elsewhere 1 and 0).

    Every number has to be there, fit, and be finite. Nothing changes otherwise.
    """
    wanted = dict(_named(backbone, sites))
    check(wanted, numbers)
    reset(backbone)
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(numbers[name])


def check(wanted: Mapping[str, Tensor], numbers: Mapping[str, Tensor]) -> None:
    """Refuse numbers that are not exactly those wanted: by name, by shape, and finite."""
    if wanted.keys() != numbers.keys():
        odd = sorted(wanted.keys() ^ numbers.keys())[:3]
        raise UpdateFileError(
            f"The learned numbers belong to another backbone (first differences: {', '.join(odd)})."
        )
    for name, tensor in wanted.items():
        if numbers[name].shape != tensor.shape:
            raise UpdateFileError(
                f"The numbers {name} have shape {tuple(numbers[name].shape)}, "
                f"the backbone has {tuple(tensor.shape)}."
            )
        if not bool(torch.isfinite(numbers[name]).all()):
            raise UpdateFileError(f"The numbers {name} are not all finite.")


def reset(backbone: nn.Module) -> None:
    """Back to γ = 1, β = 0: the bare backbone."""
    with torch.no_grad():
        for layer in layers(backbone).values():
            layer.gamma.fill_(1)
            layer.beta.fill_(0)


@contextmanager
def per_sample(backbone: nn.Module, updates: Sequence[Mapping[str, Tensor]]) -> Iterator[None]:
    """Within the block, row i of every batch runs through the FiLM numbers ``updates[i]``.

    Where an update has no numbers for a site (``film_from``), γ = 1 and β = 0.
    """
    known = {name for name, _ in _named(backbone, None)}
    if strange := sorted({name for update in updates for name in update} - known):
        raise InputError(f"FiLM numbers of another backbone (the first: {strange[0]}).")
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
    """Write FiLM into the norms' own affines and take the layers out; works in place."""
    for site, layer in layers(backbone).items():
        norm = layer.norm
        weight, bias = layer.affine()
        with torch.no_grad():
            norm.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
            norm.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
        _put(backbone, site, norm)
    return backbone


def _named(backbone: nn.Module, sites: Sequence[str] | None) -> Iterator[tuple[str, nn.Parameter]]:
    for site, layer in layers(backbone).items():
        if sites is None or site in sites:
            yield f"{site}.gamma", layer.gamma
            yield f"{site}.beta", layer.beta


def _put(backbone: nn.Module, site: str, module: nn.Module) -> None:
    parent, _, name = site.rpartition(".")
    setattr(backbone.get_submodule(parent), name, module)
