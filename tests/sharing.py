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

_loaded: dict[object, Any] = {}
_tensors: list[Any] = []  # of these backbones
_states: list[object] = []  # of these tensors when they were loaded


def pytest_collection_finish(session: pytest.Session) -> None:
    """Replace the functions once the test modules and what they import are there."""
    del session
    if "filmtransfer.backbones" in sys.modules:
        from filmtransfer.backbones import load_backbone

        def shared(name: str, weights: object = None, *, fold: bool = True) -> Any:
            if weights is not None:
                return load_backbone(name, weights, fold=fold)
            if (name, fold) not in _loaded:
                _loaded[name, fold] = load_backbone(name, fold=fold)
                network = _loaded[name, fold].module
                new = [*network.parameters(), *network.buffers()]
                _tensors.extend(new)
                _states.extend(map(_state, new))
            return _loaded[name, fold]

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
    if [_state(tensor) for tensor in _tensors] != _states:
        for memory in (_loaded, _tensors, _states):
            memory.clear()
        pytest.fail("This test changes a backbone that all tests share: copy it first (copy.deepcopy).")


def _state(tensor: Any) -> object:
    return tensor.data_ptr(), tensor._version, tensor.dtype, tensor.requires_grad, tensor.grad is None
