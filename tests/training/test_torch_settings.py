"""Settings of the process are harmless and end where they should."""

from __future__ import annotations

import sys

import pytest

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
