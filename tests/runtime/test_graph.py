"""A graph gives the features of torch for every family, with FiLM from any stage or nowhere."""

from __future__ import annotations

import numpy as np
import pytest

from filmtransfer.runtime import FeatureSession
from filmtransfer.runtime.graph import build_graph
from filmtransfer.runtime.parity import check_features
from tests.export.small_classifiers import FAMILIES, lite0, small_family
from tests.runtime.conftest import lite0_graph, lite0_session, small_spec


@pytest.mark.parametrize("film_from", [0, 3, 8, None])
def test_a_graph_agrees_with_torch(film_from):
    """For each image under its own γ and β."""
    session = lite0_session(film_from)
    assert check_features(session, lite0(), small_spec(lite0())) < 3e-5
    expected = [] if film_from is None else lite0().sites_from(film_from)
    assert [site.name for site in session.facts.sites] == expected
    assert all(site.stage >= (film_from or 0) for site in session.facts.sites)
    assert session.facts.channels == {0: 10272, 3: 9968, 8: 1280, None: 0}[film_from]


def test_frozen_norms_need_not_be_folded_before():
    backbone = lite0(fold=False)
    session = FeatureSession(build_graph(backbone, small_spec(backbone), 3), 1)
    assert check_features(session, backbone, small_spec(backbone)) < 3e-5
    pixels = np.zeros((1, 3, 64, 64), np.uint8)
    rows = session.facts.pack({}, None)
    folded = lite0_session().features(pixels, *rows)
    np.testing.assert_allclose(session.features(pixels, *rows), folded, atol=1e-5 * np.ptp(folded))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_agrees_with_torch(family):
    backbone = small_family(family)
    for film_from in (0, 1, None):
        session = FeatureSession(build_graph(backbone, small_spec(backbone), film_from), 1)
        assert check_features(session, backbone, small_spec(backbone)) < 1e-4


def test_the_same_graph_has_the_same_bytes_and_leaves_the_backbone_unchanged():
    assert build_graph(lite0(), small_spec(lite0()), 3) == lite0_graph()


def test_film_before_its_first_stage_costs_nothing():
    """All norms but those with FiLM are folded into convolutions."""
    import onnx

    for film_from in (0, 3, None):
        nodes = onnx.load_from_string(lite0_graph(film_from)).graph.node
        norms = sum(node.op_type == "BatchNormalization" for node in nodes)
        assert norms == len(lite0_session(film_from).facts.sites)
