"""The table against FiLM itself: every family, rows that begin late, and the bare backbone between two uses."""

from __future__ import annotations

import copy

import pytest
import torch

from filmtransfer import film
from filmtransfer.backbones import film_sites
from filmtransfer.errors import InputError, UpdateFileError

from .test_film import FAMILIES, disturb, images, make


@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES.keys())
@torch.no_grad()
def test_rows_are_film(name):
    """In float64, so that only rounding of the last digits is forgiven."""
    backbone = make(name).double()
    x = images(name).double()
    sites = film_sites(backbone)
    filmed = film.attach(copy.deepcopy(backbone), sites)
    bare = filmed(x)
    updates = [disturb(filmed, 1), disturb(filmed, 2), {}]
    late = sites[len(sites) // 2 :]
    updates[1] = {k: v for k, v in updates[1].items() if k.rpartition(".")[0] in late}
    with film.per_sample(filmed, updates):
        expected = filmed(x)
    table = film.FilmTable(backbone, sites)
    assert table.count == film.count(filmed)
    packed = [table.pack(u, where) for u, where in zip(updates, (sites, late, []), strict=True)]
    assert [row.numel() for row in packed] == [sum(v.numel() for v in u.values()) for u in updates]
    scale = bare.abs().max()
    assert (backbone(x) - bare).abs().max() < 1e-12 * scale
    with table.rows(packed):
        mixed = backbone(x)
    assert (mixed - expected).abs().max() < 1e-12 * scale
    assert (expected[:2] - bare[:2]).abs().max() > 1e-3 * scale
    assert (backbone(x) - bare).abs().max() < 1e-12 * scale, "rows end with their block"


@torch.no_grad()
def test_rows_that_do_not_fit():
    backbone = make("mobilenetv2_050")
    sites = film_sites(backbone)
    numbers = disturb(film.attach(copy.deepcopy(backbone), sites), 1)
    table = film.FilmTable(backbone, sites)
    packed = table.pack(numbers, sites)
    with pytest.raises(UpdateFileError, match="another backbone"):
        table.pack(numbers, sites[1:])
    with pytest.raises(InputError, match="to the end of the network"):
        table.pack(numbers, sites[:3])
    with pytest.raises(UpdateFileError, match="finite"):
        table.pack(numbers | {f"{sites[0]}.beta": numbers[f"{sites[0]}.beta"] * torch.nan}, sites)
    with pytest.raises(InputError, match="another backbone"), table.rows([packed.repeat(1, 2)]):
        pass
    with table.rows([packed, packed]), pytest.raises(InputError, match="One row per image"):
        backbone(images("mobilenetv2_050"))
