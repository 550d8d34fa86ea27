"""A graph is found again, and whatever is wrong with its file only costs the time to make it again."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace

import pytest

from filmtransfer import FitWarning, UnavailableError, UpdateFileError
from filmtransfer.runtime import cache, facts, find, prepare_in_child, store
from filmtransfer.runtime.session import FeatureSession
from tests.export.small_classifiers import SIDE
from tests.runtime.conftest import lite0_graph, lite0_key


def test_a_stored_graph_is_found(cache_path):
    key = lite0_key()
    assert find(key, 1) is None
    assert not cache_path.exists(), "looking for a graph writes nothing"
    assert store(key, lite0_graph())
    assert [path.name for path in cache_path.iterdir()] == [key.file_name]
    session = find(key, 2)
    assert session is not None
    assert session.facts.key == key
    assert session.threads == 2
    assert find(replace(key, film_from=0), 1) is None
    assert find(replace(key, digest="0" * 64), 1) is None


def damages() -> dict[str, bytes]:
    good = cache._header(lite0_graph()) + lite0_graph()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    empty = cache._header(b"") + b""
    foreign = cache._header(b"GIF89a") + b"GIF89a"
    return {
        "empty": b"",
        "truncated": good[: len(good) // 2],
        "header only": good.partition(b"\n")[0],
        "flipped": bytes(flipped),
        "foreign": b"GIF89a",
        "no graph": empty,
        "foreign content": foreign,
        "plain graph": lite0_graph(),
        "other format": good.replace(b"graph 1", b"graph 2", 1),
    }


def test_a_damaged_file_counts_as_missing(cache_path):
    key = lite0_key()
    cache_path.mkdir()
    for name, content in damages().items():
        (cache_path / key.file_name).write_bytes(content)
        with pytest.warns(FitWarning, match="cannot be used") as caught:
            assert find(key, 1) is None, name
        assert len(caught) == 1
    store(key, lite0_graph())
    assert find(key, 1) is not None


def test_a_file_under_a_wrong_name_is_not_used(cache_path):
    other = lite0_key(0)
    store(lite0_key(), lite0_graph())
    (cache_path / lite0_key().file_name).rename(cache_path / other.file_name)
    with pytest.warns(FitWarning, match="another backbone"):
        assert find(other, 1) is None


def test_a_folder_that_cannot_be_written_costs_a_warning(cache_path, monkeypatch):
    cache_path.write_text("a file")
    with pytest.warns(FitWarning, match=r"cannot be kept: .*Set FILMTRANSFER_CACHE"):
        assert not store(lite0_key(), lite0_graph())
    assert find(lite0_key(), 1) is None
    cache_path.unlink()
    cache_path.mkdir()

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", no_space)
    with pytest.warns(FitWarning, match="No space left"):
        assert not store(lite0_key(), lite0_graph())
    assert not list(cache_path.iterdir())


def test_without_onnxruntime_there_is_no_graph(monkeypatch):
    store(lite0_key(), lite0_graph())
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find(lite0_key(), 1) is None


@pytest.mark.process(seconds=15)
def test_a_child_makes_the_graph(cache_path):
    session = prepare_in_child("efficientnet_lite0", SIDE, 3, digest=lite0_key().digest)
    assert isinstance(session, FeatureSession)
    assert session.facts.key == lite0_key()
    assert find(lite0_key(), 1) is not None
    (path,) = cache_path.iterdir()
    before = path.stat().st_mtime_ns
    with pytest.raises(UpdateFileError, match="not 000000000000"):
        prepare_in_child("efficientnet_lite0", SIDE, 3, digest="0" * 64)
    assert path.stat().st_mtime_ns == before, "it was found, not made again"


@pytest.mark.process(seconds=8)
def test_a_child_needs_no_folder(cache_path):
    cache_path.write_text("a file")
    with pytest.warns(FitWarning, match="cannot be kept"):
        session = prepare_in_child("efficientnet_lite0", SIDE, None)
    assert session.facts.key == lite0_key(None)


@pytest.mark.process(seconds=4)
def test_the_error_of_a_child_is_reported():
    with pytest.raises(UnavailableError, match="There is no backbone 'nothing'"):
        prepare_in_child("nothing", SIDE, 3)


def test_a_graph_that_another_version_of_onnxruntime_checked_is_made_again_where_torch_is(monkeypatch):
    key = lite0_key()
    store(key, lite0_graph())
    assert find(key, 1) is not None
    monkeypatch.setattr(facts, "package_version", lambda _: "0.1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find(key, 1) is None, "it counts as missing, without a warning"
        monkeypatch.setattr(
            cache, "find_spec", lambda _: None
        )  # without torch nothing could check another one
        assert find(key, 1) is not None
