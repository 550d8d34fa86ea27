"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, names: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for the names of a package, given by the module of the package that defines them.

    ``__getattr__ = lazy_names(__name__, {"model": ("Update",)})``; type checkers need ``if TYPE_CHECKING:`` imports.
    """
    homes = {name: module for module, members in names.items() for name in members}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return get
