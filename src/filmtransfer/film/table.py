"""FiLM of many updates in one pass: row i of a batch has its own γ, β, and pays no more than the bare norm.

A frozen norm is an affine of something that no update changes: s ⊙ x + t, where for a BatchNorm x is the
convolution's own output, s = w/√(v+ε) and t = b − m ⊙ s; for a GroupNorm or LayerNorm x is what it normalises,
s = w, t = b. FiLM after it is another affine of the same x,

    γ ⊙ (s ⊙ x + t) + β  =  (γ ⊙ s) ⊙ x + (γ ⊙ t + β)

so an update is folded once, when it is loaded, into one flat vector: γs and γt + β of every site, in the order of the
network. A batch of updates is a matrix with a row for each image, and a site is one multiply-add in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..errors import InputError
from .attach import _put, check
from .layer import _after, _beside, _normalise


class Table:
    """Takes the place of the norms at ``sites`` (in the order of the network); works in place.

    Between two uses the network is the bare backbone, to rounding.
    """

    def __init__(self, network: nn.Module, sites: Sequence[str]) -> None:
        network.eval().requires_grad_(False)
        self._affines: dict[str, tuple[Tensor, Tensor]] = {}
        self._sites: dict[str, Site] = {}
        for site in sites:
            norm = network.get_submodule(site)
            self._affines[site] = frozen_affine(norm)
            self._sites[site] = Site(norm)
            _put(network, site, self._sites[site])
        weight = next(network.parameters())
        self.bare = torch.cat([part for pair in self._affines.values() for part in pair]).to(weight)
        self._show(self.bare[None])

    @property
    def width(self) -> int:
        """|ψ| with FiLM at every site."""
        return self.bare.numel()

    def pack(self, numbers: Mapping[str, Tensor], sites: Sequence[str]) -> Tensor:
        """The numbers of an update that learned FiLM at ``sites``, folded: the end of a row.

        Where FiLM begins late (``film_from``) the row begins late too: before it is the bare backbone.
        """
        begin = next((i for i, site in enumerate(self._sites) if site in sites), len(self._sites))
        wanted = {f"{site}.{name}": self._affines[site][0] for site in sites for name in ("gamma", "beta")}
        check(wanted, numbers)
        parts = [self.bare.new_empty(0, dtype=torch.float64)]
        for site in list(self._sites)[begin:]:
            scale, shift = self._affines[site]
            if site in sites:
                gamma, beta = (numbers[f"{site}.{name}"].to(scale) for name in ("gamma", "beta"))
                scale, shift = gamma * scale, gamma * shift + beta
            parts += [scale, shift]
        return torch.cat(parts).to(self.bare)

    @contextmanager
    def rows(self, packed: Sequence[Tensor]) -> Iterator[None]:
        """Within the block row i of every batch runs through the numbers ``packed[i]``. One block at a time."""
        if any(len(own) > self.width for own in packed):
            raise InputError("FiLM numbers of another backbone.", "Pack them with this table.")
        matrix = self.bare.repeat(len(packed), 1)
        for row, own in zip(matrix, packed, strict=True):
            row[self.width - len(own) :] = own
        self._show(matrix)
        try:
            yield
        finally:
            self._show(self.bare[None])

    def _show(self, matrix: Tensor) -> None:
        """Give each site its columns."""
        begin = 0
        for site, (scale, _) in zip(self._sites.values(), self._affines.values(), strict=True):
            middle, end = begin + len(scale), begin + 2 * len(scale)
            site.scale, site.shift = matrix[:, begin:middle], matrix[:, middle:end]
            begin = end


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
