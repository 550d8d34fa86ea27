"""The Flower app of this package: a few lines that name it, never code.

Flower sends an app's files to every client and runs them there. Ours is a pyproject.toml that points into the
installed package, made alike on both sides, so a client can refuse anything else (``executor``).
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
def bundle() -> bytes:
    """The app as Flower packs it: the same bytes on every machine with this version."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # what Flower uses for it
        packed, _ = build_fab_from_files({"pyproject.toml": PYPROJECT.format(version=__version__).encode()})
    return packed


def digest() -> str:
    return hashlib.sha256(bundle()).hexdigest()
