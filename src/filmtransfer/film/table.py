"""FiLM for multi-user batches: each image has its own γ and β, at the cost of the plain norm.

A frozen norm is an affine transformation s ⊙ x + t of an input that no update changes: for a BatchNorm x is the
output of the convolution, s = w/√(v+ε) and t = b − m ⊙ s; for a GroupNorm or LayerNorm x is the normalised input,
s = w and t = b. FiLM after it is another affine transformation of the same x,

    γ ⊙ (s ⊙ x + t) + β  =  (γ ⊙ s) ⊙ x + (γ ⊙ t + β)

so that an update is folded once, when it is loaded, into two rows: γs and γt + β of all sites, in the order of the
network. A batch has such rows for each image, and every site is one in-place multiply-add.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..parameters import check_parameters
from .layer import activate, broadcast_rows, normalise


class FilmTable:
    """Rows of folded γ and β for the images of a batch, which replace the norms of a network at ``sites``.

    The norms are replaced in place. Outside ``rows`` the network is the backbone without FiLM, up to rounding.
    """

    def __init__(self, network: nn.Module, sites: Sequence[str]) -> None:
        network.eval().requires_grad_(False)
        self._sites: dict[str, _Site] = {}
        affines = []
        for site in sites:
            norm = network.get_submodule(site)
            affines.append(torch.stack(frozen_affine(norm)))
            self._sites[site] = _Site(norm)
            network.set_submodule(site, self._sites[site])
        self._affine = torch.cat(affines, 1)  # s and t (2, ΣC), in float64
        self._widths = {site: affine.shape[1] for site, affine in zip(sites, affines, strict=True)}
        self.bare = self._affine.to(next(network.parameters()).dtype)
        self._set_rows(self.bare[None])

    @property
    def count(self) -> int:
        """|ψ| with FiLM at every site."""
        return self.bare.numel()

    def pack(self, parameters: Mapping[str, Tensor], sites: Sequence[str]) -> Tensor:
        """Return γs and γt + β (2, ·) of an update with FiLM at ``sites``.

        With FiLM in the later stages only (``film_from``) this is the end of a row, which ``rows`` completes.
        """
        order = list(self._sites)
        ordered = [site for site in order if site in sites]
        if ordered != order[len(order) - len(ordered) :] or len(ordered) < len(sites):
            raise InputError("FiLM has to be trained at all sites from one site to the end of the network.")
        shapes = {f"{site}.{name}": (self._widths[site],) for site in ordered for name in ("gamma", "beta")}
        check_parameters(shapes, parameters)
        if not ordered:
            return self.bare[:, :0].clone()
        gamma, beta = (torch.cat([parameters[f"{s}.{name}"] for s in ordered]) for name in ("gamma", "beta"))
        scale, shift = self._affine[:, -len(gamma) :]
        gamma, beta = gamma.to(scale), beta.to(scale)
        return torch.stack([gamma * scale, gamma * shift + beta]).to(self.bare)

    @contextmanager
    def rows(self, packed: Sequence[Tensor]) -> Iterator[None]:
        """Within the context, row i of every batch is computed with ``packed[i]``. Contexts must not overlap."""
        width = self.bare.shape[1]
        if any(end.shape[1] > width for end in packed):
            raise InputError("The FiLM parameters belong to another backbone.", "Pack them with this table.")
        matrix = self.bare.repeat(len(packed), 1, 1)
        for row, end in zip(matrix, packed, strict=True):
            row[:, width - end.shape[1] :] = end
        self._set_rows(matrix)
        try:
            yield
        finally:
            self._set_rows(self.bare[None])

    def _set_rows(self, matrix: Tensor) -> None:
        """Give each site its columns of the matrix (B, 2, ΣC)."""
        parts = matrix.split(list(self._widths.values()), 2)
        for site, part in zip(self._sites.values(), parts, strict=True):
            site.scale, site.shift = part.unbind(1)


class _Site(nn.Module):
    """A norm (and the activation that timm fuses with it) whose affine transformation differs by image."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.scale = self.shift = torch.empty(0)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        # The input of a BatchNorm is the output of a convolution that nothing else reads: it may be overwritten.
        if not isinstance(self.norm, nn.BatchNorm2d):
            x = normalise(self.norm, x, None, None)
        shared = len(self.scale) == 1
        scale, shift = (
            broadcast_rows(self.norm, rows.expand(len(x), -1) if shared else rows, x)
            for rows in (self.scale, self.shift)
        )
        return activate(self.norm, torch.addcmul(shift, scale, x, out=x))


def frozen_affine(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """Return s and t of a frozen norm, in float64."""
    weight, bias = (getattr(norm, name).detach().double() for name in ("weight", "bias"))
    if not isinstance(norm, nn.BatchNorm2d):
        return weight, bias
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = weight / torch.sqrt(norm.running_var.double() + norm.eps)
    return scale, bias - norm.running_mean.double() * scale
