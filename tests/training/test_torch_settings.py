"""Settings of the process are harmless and end where they should."""

from __future__ import annotations

import sys

import pytest
import torch

from filmtransfer.errors import UsageError
from filmtransfer.training import torch_settings as process


def test_it_answers_on_linux_and_declines_elsewhere(monkeypatch):
    assert process.keep_freed_memory() is (sys.platform == "linux")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert process.keep_freed_memory() is False


def test_denormals_come_back():
    assert not process.denormals_are_zero()
    with process.denormals_as_zero():
        assert process.denormals_are_zero()
        with process.denormals_as_zero():
            pass
        assert process.denormals_are_zero()
    assert not process.denormals_are_zero()
    with pytest.raises(KeyError), process.denormals_as_zero():
        raise KeyError
    assert not process.denormals_are_zero()


def test_threads_by_wish_by_environment_or_by_cores(monkeypatch):
    before = torch.get_num_threads()
    try:
        assert process.choose_threads(1) == 1
        with pytest.raises(UsageError, match="threads"):
            process.choose_threads(0)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        torch.set_num_threads(2)
        assert process.choose_threads() == 2, "what the environment says has been heard by torch"
        monkeypatch.delenv("OMP_NUM_THREADS")
        monkeypatch.setattr(process, "usable_cores", lambda: 2)
        assert process.choose_threads() == 2
        monkeypatch.setattr(process, "usable_cores", lambda: 4)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as torchrun does
        assert process.choose_threads(processes=2) == 2
        assert process.choose_threads(processes=8) == 1
    finally:
        torch.set_num_threads(before)
