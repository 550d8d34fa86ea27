"""Names that are imported when they are first used."""

from __future__ import annotations

import pytest

import filmtransfer
from filmtransfer import backbones
from filmtransfer.backbones import architecture, catalogue, facts, weights
from filmtransfer.lazy import lazy_names


def test_a_name_is_that_of_its_module():
    assert backbones.load_backbone is weights.load_backbone
    assert backbones.build is catalogue.build is architecture.build
    assert catalogue.backbone_facts is facts.backbone_facts
    assert lazy_names("filmtransfer", {"errors": ("FitError",)})("FitError") is filmtransfer.FitError


@pytest.mark.parametrize("module", [filmtransfer, backbones, catalogue])
def test_every_public_name_exists_and_no_other(module):
    assert all(hasattr(module, name) for name in module.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # noqa: B018
