"""The catalogue: parameter counts as in the paper, names and listings."""

from __future__ import annotations

import pytest

from filmtransfer import backbones, film
from filmtransfer.backbones import assemble, backbone_facts, build, load_backbone, record_for
from filmtransfer.errors import UnavailableError, UsageError


def test_parameter_counts_are_those_of_the_paper():
    counts = {
        n: (len(backbone_facts(n).site_names), backbone_facts(n).film_parameters)
        for n in ("bit_m_r50x1", "efficientnet_b0", "efficientnetv2_m")
    }
    assert counts == {
        "bit_m_r50x1": (17, 11_648),
        "efficientnet_b0": (18, 20_544),
        "efficientnetv2_m": (59, 137_472),
    }
    assert backbone_facts("vit_b16").film_parameters == 38_400
    assert backbone_facts("efficientnet_lite0").film_parameters == 20_544
    assert backbone_facts("bit_m_r50x1").parameters == 23_500_352
    assert backbone_facts("bit_m_r50x1").features == 2048


def test_unknown_names():
    with pytest.raises(UsageError, match="There is no backbone 'resnet9000'"):
        load_backbone("resnet9000")
    with pytest.raises(UnavailableError):
        load_backbone("resnet34")  # a timm name outside the catalogue, not downloaded


def test_the_listing_says_which_backbones_are_usable():
    rows = {row.record.name: row for row in backbones.list_backbones()}
    assert rows["efficientnet_lite0"].usable
    assert "package" in rows["efficientnet_lite0"].source
    assert not rows["bit_m_r50x1"].usable
    assert "goog_in21k" in rows["bit_m_r50x1"].source


def test_a_backbone_with_random_weights():
    backbone = assemble(record_for("resnet18"), build(record_for("resnet18")))
    film.attach(backbone.module, backbone.sites)
    assert film.count(backbone.module) == backbone_facts("resnet18").film_parameters
