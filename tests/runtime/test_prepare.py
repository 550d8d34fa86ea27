"""A graph is made once, checked before it is kept, and by two processes at once without harm."""

from __future__ import annotations

import subprocess
import sys

import pytest

from filmtransfer import FitWarning
from filmtransfer.runtime import find, prepare
from filmtransfer.runtime.parity import ParityError
from filmtransfer.runtime.prepare import main, prepare_graph
from tests.export.small_classifiers import SIDE, lite0
from tests.runtime.conftest import lite0_graph, lite0_key, small_spec


def test_a_graph_is_made_once(cache_path, monkeypatch):
    made = prepare_graph(lite0(), small_spec(lite0()), 3)
    assert made.facts.key == lite0_key()
    monkeypatch.setattr(prepare, "build_graph", None)
    again = prepare_graph(lite0(), small_spec(lite0()), 3, threads=2)
    assert again.facts == made.facts
    (path,) = cache_path.iterdir()
    assert path.read_bytes().endswith(lite0_graph())


def test_a_damaged_graph_is_made_again(cache_path):
    cache_path.mkdir()
    (cache_path / lite0_key().file_name).write_bytes(b"half a gra")
    with pytest.warns(FitWarning, match="cannot be used"):
        prepare_graph(lite0(), small_spec(lite0()), 3)
    assert find(lite0_key(), 1) is not None


def test_without_a_folder_the_graph_is_used_but_not_kept(cache_path):
    cache_path.write_text("a file")
    with pytest.warns(FitWarning, match="cannot be kept"):
        session = prepare_graph(lite0(), small_spec(lite0()), 3)
    assert session.facts.key == lite0_key()


def test_a_graph_that_differs_is_not_kept(cache_path, monkeypatch):
    def refuse(*_: object) -> None:
        raise ParityError("it differs")

    monkeypatch.setattr(prepare, "check_features", refuse)
    with pytest.raises(ParityError):
        prepare_graph(lite0(), small_spec(lite0()), 3)
    assert not cache_path.exists()


def test_the_command_prints_the_name_of_the_file(cache_path, capsys):
    arguments = ["--backbone", "efficientnet_lite0", "--size", str(SIDE), "--film-from"]
    assert main([*arguments, "none"]) == 0
    assert capsys.readouterr().out.split() == [path.name for path in cache_path.iterdir()]
    assert main([*arguments, "99"]) == 2
    assert "FiLM cannot begin at stage 99" in capsys.readouterr().err


@pytest.mark.process(seconds=10)
def test_two_processes_make_the_same_graph(cache_path):
    command = [sys.executable, "-m", "filmtransfer.runtime.prepare", "--backbone", "efficientnet_lite0"]
    command += ["--size", str(SIDE), "--film-from", "3"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    names = {process.communicate()[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert names == {lite0_key().file_name} == {path.name for path in cache_path.iterdir()}
    assert find(lite0_key(), 1) is not None
