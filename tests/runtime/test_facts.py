"""Keys tell graphs apart, and a row of γ and β is made of exactly the parameters of an update."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from filmtransfer import UpdateFileError, UsageError
from filmtransfer.runtime import GraphFacts, GraphKey, Site
from filmtransfer.runtime import facts as facts_module

KEY = GraphKey("a net/b", "0" * 64, 64, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2), 3)
FACTS = GraphFacts(KEY, 10, (Site("a", 2, 3), Site("b", 3, 4)), {"torch": "2"})


def parameters(*names: str) -> dict[str, np.ndarray]:
    channels = {site.name: site.channels for site in FACTS.sites}
    return {
        f"{name}.{kind}": np.full(channels[name], start + i, np.float32)
        for i, name in enumerate(names)
        for kind, start in (("gamma", 2), ("beta", -2))
    }


def test_whatever_changes_the_features_changes_the_name_of_the_file(monkeypatch):
    others = {"backbone": "c", "digest": "1" * 64, "size": 65, "mean": (0.5, 0.5, 0.4), "std": (1, 1, 1)}
    keys = [KEY, *(replace(KEY, **{name: value}) for name, value in others.items())]
    keys += [replace(KEY, film_from=film_from) for film_from in (None, 0, 4)]
    names = {key.file_name for key in keys}
    assert len(names) == len(keys)
    assert all("/" not in name and " " not in name for name in names)
    assert KEY.file_name == replace(KEY).file_name
    monkeypatch.setattr(facts_module, "FORMAT", 2)
    assert KEY.file_name not in names


def test_rows_are_in_the_order_of_the_sites():
    gamma, beta = FACTS.pack(dict(reversed(parameters("a", "b").items())), 3)
    assert gamma.tolist() == [2, 2, 3, 3, 3]
    assert beta.tolist() == [-2, -2, -1, -1, -1]
    assert gamma.dtype == beta.dtype == np.float32


def test_before_the_first_trained_stage_film_changes_nothing():
    gamma, beta = FACTS.pack(parameters("b"), 4)
    assert gamma.tolist() == [1, 1, 2, 2, 2]
    assert beta.tolist() == [0, 0, -2, -2, -2]
    gamma, beta = FACTS.pack({}, None)
    assert gamma.tolist() == [1] * 5
    assert beta.tolist() == [0] * 5


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"c.gamma": np.ones(2)}, "another backbone.*c.gamma"),
        ({"a.gamma": np.ones(3)}, r"a.gamma has shape \(3,\), that of the backbone \(2,\)"),
        ({"b.beta": np.array([1, np.nan, 1])}, "b.beta is not finite"),
    ],
)
def test_other_parameters_are_refused(change, match):
    with pytest.raises(UpdateFileError, match=match):
        FACTS.pack(parameters("a", "b") | change, 3)


def test_missing_parameters_and_earlier_stages_are_refused():
    with pytest.raises(UpdateFileError, match=r"a\.beta, a\.gamma"):
        FACTS.pack(parameters("b"), 3)
    with pytest.raises(UpdateFileError, match=r"a\.beta, a\.gamma"):
        FACTS.pack(parameters("a", "b"), 4)
    with pytest.raises(UsageError, match="no FiLM in stage 2"):
        FACTS.pack(parameters("a", "b"), 2)
    with pytest.raises(UsageError, match="no FiLM in stage 3"):
        replace(FACTS, key=replace(KEY, film_from=None)).pack({}, 3)


def test_facts_are_read_as_they_were_written():
    assert GraphFacts.from_json(json.dumps(FACTS.to_table())) == FACTS
    table = FACTS.to_table()
    for wrong in ({}, [], table | {"format": 2}, table | {"kind": "user"}, table | {"key": {}}):
        with pytest.raises(UpdateFileError, match="not a graph of a backbone"):
            GraphFacts.from_json(json.dumps(wrong))
