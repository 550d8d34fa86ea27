"""The table of facts is what timm says, and what a loaded backbone says of itself."""

from __future__ import annotations

import pytest
from scripts.make_facts import facts_table

from filmtransfer.backbones import CATALOGUE, assemble, backbone_facts, build, load_backbone, record_for
from filmtransfer.backbones.architecture import derive_facts
from filmtransfer.backbones.facts import TABLE, BackboneFacts


@pytest.mark.slow
def test_the_table_is_up_to_date():
    assert TABLE.read_text("utf-8") == facts_table(), "run 'make docs'"


@pytest.mark.parametrize("name", ["efficientnet_lite0", "resnet34"])
def test_an_entry_of_the_table_has_every_fact(name):
    facts = derive_facts(record_for(name))
    assert BackboneFacts.from_json(facts.to_json()) == facts == backbone_facts(name)


def test_every_backbone_of_the_catalogue_is_in_the_table(monkeypatch):
    monkeypatch.setattr("filmtransfer.backbones.architecture.derive_facts", None)
    backbone_facts.cache_clear()
    assert all(backbone_facts(name).hub_id.startswith("timm/") for name in CATALOGUE)


def test_a_backbone_agrees_with_the_facts_about_it():
    transformer = assemble(record_for("deit_small"), build(record_for("deit_small")))
    for backbone in (load_backbone("efficientnet_lite0"), transformer):
        facts = backbone_facts(backbone.name)
        assert backbone.pixels == facts.pixels
        assert backbone.features == facts.features
        assert tuple(backbone.sites) == facts.site_names
        assert backbone.sites_from(3) == facts.sites_from(3)
        assert [backbone.fit_size(n) for n in range(1, 60)] == [facts.fit_size(n) for n in range(1, 60)]


@pytest.mark.parametrize(("size", "fitted"), [(224, 224), (230, 224), (14, 14), (13, 14), (1, 14), (41, 28)])
def test_an_image_consists_of_complete_patches(size, fitted):
    assert backbone_facts("dinov2_small").fit_size(size) == fitted
