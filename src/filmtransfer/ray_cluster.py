"""Connecting to a Ray cluster."""

from __future__ import annotations

import logging
import os
import socket
from types import ModuleType

from .errors import MissingExtraError, UnavailableError, first_line


def import_ray(extra: str) -> ModuleType:
    """Return the module; without it the error names the extra of this package that installs it."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # suppresses a deprecation warning
    try:
        import ray
    except ImportError:
        raise MissingExtraError("--ray", extra) from None
    return ray


def connect(address: str, extra: str, alternative: str, **options: object) -> ModuleType:
    """Connect to a cluster, or start one on this machine ("local"); return the module.

    ``alternative`` is the option that the error recommends if there is no cluster; ``options`` are those of ``ray.init``.
    """
    ray = import_ray(extra)
    try:
        _check_reachable(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        raise UnavailableError(
            f"There is no Ray cluster at {address} ({first_line(error)}).",
            f"Start one with 'ray start --head', or use {alternative}.",
        ) from None
    return ray


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at the address; Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()
