"""FilmTable against film.per_sample: every family, partial rows, and the plain backbone outside the context."""

from __future__ import annotations

import copy

import pytest
import torch

from filmtransfer import film
from filmtransfer.backbones import film_sites
from filmtransfer.errors import InputError, UpdateFileError

from .test_attach import FAMILIES, images, make, random_parameters


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES.values(), ids=FAMILIES.keys())
@torch.no_grad()
def test_rows_equal_film(name):
    """In float64, so that only the last digits may differ."""
    backbone = make(name).double()
    x = images(name).double()
    sites = film_sites(backbone)
    filmed = film.attach(copy.deepcopy(backbone), sites)
    bare = filmed(x)
    updates = [random_parameters(filmed, 1), random_parameters(filmed, 2), {}]
    later = sites[len(sites) // 2 :]
    updates[1] = {k: v for k, v in updates[1].items() if k.rpartition(".")[0] in later}
    with film.per_sample(filmed, updates):
        expected = filmed(x)
    table = film.FilmTable(backbone, sites)
    assert table.count == film.count(filmed)
    packed = [table.pack(u, trained) for u, trained in zip(updates, (sites, later, []), strict=True)]
    assert [row.numel() for row in packed] == [sum(v.numel() for v in u.values()) for u in updates]
    scale = bare.abs().max()
    assert (backbone(x) - bare).abs().max() < 1e-12 * scale
    with table.rows(packed):
        mixed = backbone(x)
    assert (mixed - expected).abs().max() < 1e-12 * scale
    assert (expected[:2] - bare[:2]).abs().max() > 1e-3 * scale
    assert (backbone(x) - bare).abs().max() < 1e-12 * scale, "the rows end with the context"


@torch.no_grad()
def test_invalid_rows_are_rejected():
    backbone = make("mobilenetv2_050")
    sites = film_sites(backbone)
    parameters = random_parameters(film.attach(copy.deepcopy(backbone), sites), 1)
    table = film.FilmTable(backbone, sites)
    packed = table.pack(parameters, sites)
    with pytest.raises(UpdateFileError, match="another backbone"):
        table.pack(parameters, sites[1:])
    with pytest.raises(InputError, match="to the end of the network"):
        table.pack(parameters, sites[:3])
    with pytest.raises(UpdateFileError, match="finite"):
        table.pack(parameters | {f"{sites[0]}.beta": parameters[f"{sites[0]}.beta"] * torch.nan}, sites)
    with pytest.raises(InputError, match="another backbone"), table.rows([packed.repeat(1, 2)]):
        pass
    with table.rows([packed, packed]), pytest.raises(InputError, match="one row per image"):
        backbone(images("mobilenetv2_050"))
