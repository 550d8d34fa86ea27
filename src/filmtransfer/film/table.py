"""FiLM of many updates in one pass: row i of a batch has its own γ, β, and pays no more than the bare norm.

A frozen norm is an affine of something that no update changes: s ⊙ x + t, where for a BatchNorm x is the
convolution's own output, s = w/√(v+ε) and t = b − m ⊙ s; for a GroupNorm or LayerNorm x is what it normalises,
s = w, t = b. FiLM after it is another affine of the same x,

    γ ⊙ (s ⊙ x + t) + β  =  (γ ⊙ s) ⊙ x + (γ ⊙ t + β)

so an update is folded once, when it is loaded, into two rows of numbers: γs and γt + β of every site, in the order of
the network. A batch has such rows for each image, and a site is one multiply-add in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import InputError
from .attach import _put, check
from .layer import _after, _beside, _normalise


class FilmTable:
    """Takes the place of the norms at ``sites`` (in the order of the network); works in place.

    Between two uses the network is the bare backbone, to rounding.
    """

    def __init__(self, network: nn.Module, sites: Sequence[str]) -> None:
        network.eval().requires_grad_(False)
        self._sites: dict[str, Site] = {}
        affines = []
        for site in sites:
            norm = network.get_submodule(site)
            affines.append(torch.stack(frozen_affine(norm)))
            self._sites[site] = Site(norm)
            _put(network, site, self._sites[site])
        self._affine = torch.cat(affines, 1)  # s and t (2, ΣC), in float64
        self._widths = {site: affine.shape[1] for site, affine in zip(sites, affines, strict=True)}
        self.bare = self._affine.to(next(network.parameters()).dtype)
        self._show(self.bare[None])

    @property
    def count(self) -> int:
        """|ψ| with FiLM at every site."""
        return self.bare.numel()

    def pack(self, numbers: Mapping[str, Tensor], sites: Sequence[str]) -> Tensor:
        """γs and γt + β (2, ·) of an update that learned FiLM at ``sites``: the end of a row.

        Where FiLM begins late (``film_from``) the row begins late too: before it is the bare backbone.
        """
        order = list(self._sites)
        where = [site for site in order if site in sites]
        if where != order[len(order) - len(where) :] or len(where) < len(sites):
            raise InputError("FiLM has to be learned from one site on, to the end of the network.")
        like = {site: self._affine.new_empty(self._widths[site]) for site in where}
        check({f"{site}.{name}": like[site] for site in where for name in ("gamma", "beta")}, numbers)
        if not where:
            return self.bare[:, :0].clone()
        gamma, beta = (torch.cat([numbers[f"{s}.{name}"] for s in where]) for name in ("gamma", "beta"))
        scale, shift = self._affine[:, -len(gamma) :]
        gamma, beta = gamma.to(scale), beta.to(scale)
        return torch.stack([gamma * scale, gamma * shift + beta]).to(self.bare)

    @contextmanager
    def rows(self, packed: Sequence[Tensor]) -> Iterator[None]:
        """Within the block row i of every batch runs through the numbers ``packed[i]``. One block at a time."""
        width = self.bare.shape[1]
        if any(own.shape[1] > width for own in packed):
            raise InputError("FiLM numbers of another backbone.", "Pack them with this table.")
        matrix = self.bare.repeat(len(packed), 1, 1)
        for row, own in zip(matrix, packed, strict=True):
            row[:, width - own.shape[1] :] = own
        self._show(matrix)
        try:
            yield
        finally:
            self._show(self.bare[None])

    def _show(self, matrix: Tensor) -> None:
        """Give each site its columns of (B, 2, ΣC)."""
        parts = matrix.split(list(self._widths.values()), 2)
        for site, part in zip(self._sites.values(), parts, strict=True):
            site.scale, site.shift = part.unbind(1)


class Site(nn.Module):
    """A norm (and the activation that timm fuses with it) whose affine has a row for each image."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm
        self.scale = self.shift = torch.empty(0)

    @torch.no_grad()
    def forward(self, x: Tensor) -> Tensor:
        # A BatchNorm follows a convolution, and nobody else reads what that made: x itself may be overwritten.
        if not isinstance(self.norm, nn.BatchNorm2d):
            x = _normalise(self.norm, x, None, None)
        one = len(self.scale) == 1
        scale, shift = (
            _beside(self.norm, rows.expand(len(x), -1) if one else rows, x)
            for rows in (self.scale, self.shift)
        )
        return _after(self.norm, torch.addcmul(shift, scale, x, out=x))


def frozen_affine(norm: nn.Module) -> tuple[Tensor, Tensor]:
    """s and t of a frozen norm, in float64."""
    weight, bias = (getattr(norm, name).detach().double() for name in ("weight", "bias"))
    if not isinstance(norm, nn.BatchNorm2d):
        return weight, bias
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = weight / torch.sqrt(norm.running_var.double() + norm.eps)
    return scale, bias - norm.running_mean.double() * scale
