"""The Flower App Bundle (FAB) of this package: a few lines of configuration without code.

Flower sends an app's files to every client and runs them there. Ours is a pyproject.toml that refers to the
installed package, built identically on both sides, so a client can refuse any other app (``executor``).
"""

from __future__ import annotations

import hashlib
import warnings
from functools import cache

from flwr.cli.build import build_fab_from_files

from ... import __version__

PYPROJECT = """\
[project]
name = "filmtransfer-federated"
version = "{version}"

[tool.flwr.app]
publisher = "filmtransfer"

[tool.flwr.app.components]
serverapp = "filmtransfer.federated.app:server_app"
clientapp = "filmtransfer.federated.app:client_app"

[tool.flwr.app.config]
plan = ""
folder = ""
test = ""
weights = ""
"""


@cache
def build_fab() -> bytes:
    """Return the bundle: the same bytes on every machine with this version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a function that Flower uses
        fab, _ = build_fab_from_files({"pyproject.toml": PYPROJECT.format(version=__version__).encode()})
    return fab


def fab_digest(fab: bytes | None = None) -> str:
    """Return the hash of a bundle, by default of this package's."""
    return hashlib.sha256(build_fab() if fab is None else fab).hexdigest()
