"""Which runtime computes features, and what happens where a graph is missing, damaged or cannot be kept."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from filmtransfer import FitWarning, Predictor, Update, UpdateFileError, UsageError
from filmtransfer.cli.prediction import prepare_next
from filmtransfer.cli.printing import Printer
from filmtransfer.errors import UnavailableError
from filmtransfer.runtime import weights_index
from filmtransfer.runtime.extractor import (
    GraphExtractor,
    find_extractor,
    graph_key,
    make_graph,
    prepare_predictions,
)
from filmtransfer.runtime.weights_index import open_graph
from tests.conftest import picture
from tests.serve import updates

PHOTOS = [picture(kind, 300 + kind) for kind in range(3)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.safetensors"
    updates.update(1, film_from=3, keep=True).save(path)
    return path


def test_both_runtimes_predict_the_same(file):
    torch, onnx = (Predictor.load(file, runtime=runtime) for runtime in ("torch", "onnx"))
    assert (torch.runtime, onnx.runtime) == ("torch", "onnx")
    np.testing.assert_allclose(onnx.predict_proba(PHOTOS), torch.predict_proba(PHOTOS), atol=1e-5)
    assert (onnx.predict(PHOTOS) == torch.predict(PHOTOS)).all()
    for one, other in zip(onnx.explain(PHOTOS), torch.explain(PHOTOS), strict=True):
        assert [photo for photo, *_ in one.nearest] == [photo for photo, *_ in other.nearest]
        for name, distance in one.distances.items():
            assert distance == pytest.approx(other.distances[name], rel=1e-4)
    assert "onnx" in repr(onnx)
    assert onnx.score(PHOTOS, onnx.predict(PHOTOS)) == 1.0


@pytest.mark.parametrize("choices", [{"film_from": 0}, {"film_from": 5}, {"train": "none"}])
def test_every_update_with_film_has_a_graph(choices, tmp_path):
    update = updates.update(2, **choices)
    update.save(tmp_path / "mine.safetensors")
    onnx = Predictor.load(tmp_path / "mine.safetensors", runtime="onnx")
    torch = Predictor.load(tmp_path / "mine.safetensors", runtime="torch")
    np.testing.assert_allclose(onnx.predict_proba(PHOTOS), torch.predict_proba(PHOTOS), atol=1e-5)


def test_the_graph_is_used_as_soon_as_it_is_there(file, cache_path, capsys):
    first = Predictor.load(file)
    assert first.runtime == "torch"
    prepare_next(Printer(False), first, "torch")  # torch was asked for: nothing is made
    assert not cache_path.exists()
    prepare_next(Printer(False), first, "auto")
    assert "starts without torch" in capsys.readouterr().err
    assert Predictor.load(file).runtime == "onnx"
    assert Predictor.load(file, runtime="torch").runtime == "torch"


def test_a_damaged_graph_is_reported_once_and_made_again(file, cache_path):
    make_graph(Predictor.load(file).torch_model())
    (path,) = cache_path.glob("*.graph")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.warns(FitWarning, match="damaged"):
        predictor = Predictor.load(file)
    assert predictor.runtime == "torch"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert prepare_predictions(predictor.torch_model())
        assert Predictor.load(file).runtime == "onnx"


def test_a_folder_that_cannot_be_written_costs_no_work(file, cache_path):
    cache_path.write_text("a file")
    predictor = Predictor.load(file)
    with pytest.warns(FitWarning, match="cannot be kept"):
        assert not prepare_predictions(predictor.torch_model())
    with pytest.warns(FitWarning, match="cannot be kept"):
        assert Predictor.load(file, runtime="onnx").runtime == "onnx"


def test_what_the_graph_cannot_do_is_refused_or_left_to_torch(file, tmp_path):
    update = Update.load(file)
    with pytest.raises(UsageError, match="not on cuda"):
        find_extractor(update, "onnx", device="cuda")
    update.settings = {"train": "all"}
    with pytest.raises(UsageError, match="all weights"):
        find_extractor(update, "onnx")
    with pytest.raises(UsageError, match="The runtime cannot be 'tpu'"):
        Predictor.load(file, runtime="tpu")
    with pytest.raises(UpdateFileError, match="no weights file"):
        Predictor.load(file, weights=str(tmp_path / "nothing.pth"))


def test_an_update_that_does_not_fit_the_graph_is_refused(file):
    update = Update.load(file)
    session = make_graph(Predictor.load(file).torch_model())
    assert session.facts.key == graph_key(update)
    update.parameters.pop(next(iter(update.parameters)))
    with pytest.raises(UpdateFileError, match="another backbone"):
        GraphExtractor(session, update)


def test_the_digest_of_the_weights_is_remembered(file):
    """The service finds the graph by the backbone's name, without torch."""
    make_graph(Predictor.load(file).torch_model())
    update = Update.load(file)
    key, lines = graph_key(update), []
    assert open_graph(update.backbone, key.with_digest(""), on_phase=lines.append).facts.key == key
    assert lines == [], "nothing had to be made"


def test_making_a_graph_is_announced(file, monkeypatch):
    key, lines = graph_key(Update.load(file)), []

    def stop(*_: object, **__: object) -> None:
        raise UnavailableError("stopped here")

    monkeypatch.setattr(weights_index, "prepare_in_child", stop)
    with pytest.raises(UnavailableError, match="stopped here"):
        open_graph(key.backbone, replace(key, size=40), on_phase=lines.append)
    assert len(lines) == 1
    assert f"preparing {key.backbone} for images of 40 pixels" in lines[0]
