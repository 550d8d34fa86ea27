"""Asking the allocator is harmless, and changes no number."""

from __future__ import annotations

import sys

from filmtransfer.training import memory


def test_it_answers_on_linux_and_declines_elsewhere(monkeypatch):
    assert memory.keep_freed_memory() is (sys.platform == "linux")
    monkeypatch.setattr(sys, "platform", "darwin")
    assert memory.keep_freed_memory() is False
