"""A cache of its own for every test, and one graph of lite0 for all."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from filmtransfer.backbones import Backbone
from filmtransfer.data.pixels import PixelSpec
from filmtransfer.runtime import FeatureSession, GraphKey
from filmtransfer.runtime.graph import build_graph
from tests.export.small_classifiers import SIDE, lite0


@pytest.fixture(autouse=True)
def cache_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("FILMTRANSFER_CACHE", str(folder))
    return folder / "graphs"


def small_spec(backbone: Backbone) -> PixelSpec:
    return replace(backbone.pixels, size=SIDE)


@cache
def lite0_graph(film_from: int | None = 3) -> bytes:
    return build_graph(lite0(), small_spec(lite0()), film_from)


def lite0_key(film_from: int | None = 3) -> GraphKey:
    return GraphKey.of(lite0().name, lite0().digest, small_spec(lite0()), film_from)


def lite0_session(film_from: int | None = 3, threads: int = 1) -> FeatureSession:
    return FeatureSession(lite0_graph(film_from), threads)
