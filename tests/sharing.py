"""What the tests of one process share because it is expensive to make and never changed: a pytest plugin.

A backbone by its name is frozen and made to be shared, so it is loaded once; tests of loading itself (tests/backbones)
load it again, and a test that changes a shared one fails. The command's parser is built once.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import pytest

_loaded: dict[
    object, tuple[Any, list[object]]
] = {}  # backbones, and their tensors' state when they were loaded


def pytest_collection_finish(session: pytest.Session) -> None:
    """Replace the functions once the test modules and what they import are there."""
    del session
    if "filmtransfer.backbones" in sys.modules:
        from filmtransfer.backbones import load_backbone

        def shared(*arguments: Any, **options: Any) -> Any:
            key = (*arguments, *options.items())
            if key not in _loaded:
                backbone = load_backbone(*arguments, **options)
                _loaded[key] = backbone, _state(backbone)
            return _loaded[key][0]

        for name, module in list(sys.modules.items()):
            ours = name.startswith(("filmtransfer.", "tests.")) and not name.startswith("tests.backbones")
            if ours and getattr(module, "load_backbone", None) is load_backbone:
                module.load_backbone = shared  # type: ignore[attr-defined]
    if "typer" in sys.modules:
        import typer.main

        typer.main.get_command = functools.cache(typer.main.get_command)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Fail a test that changes a shared backbone; later tests get a new one."""
    yield
    if any(_state(backbone) != state for backbone, state in _loaded.values()):
        _loaded.clear()
        pytest.fail("This test changes a backbone that all tests share: copy it first (copy.deepcopy).")


def _state(backbone: Any) -> list[object]:
    tensors = [*backbone.module.parameters(), *backbone.module.buffers()]
    return [(t.data_ptr(), t._version, t.dtype, t.requires_grad, t.grad is None) for t in tensors]
