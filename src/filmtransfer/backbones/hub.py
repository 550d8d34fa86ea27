"""The Hugging Face hub: what was downloaded from it, and whether it can be reached."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlparse

from ..errors import UsageError


def cached_on_disk(hub_id: str) -> bool:
    """Return whether the weights of this repository have been downloaded."""
    from huggingface_hub import try_to_load_from_cache

    return bool(hub_id) and any(
        isinstance(try_to_load_from_cache(hub_id, file), str)
        for file in ("model.safetensors", "pytorch_model.bin")
    )


def hub_is_offline() -> bool:
    """Return whether the user has switched the hub off."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON")


def hub_reachable(seconds: float = 3.0) -> bool:
    """Return whether the hub accepts connections; its client would otherwise retry for most of a minute."""
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        address = urlparse(endpoint)
        port = address.port or (443 if address.scheme == "https" else 80)
    except ValueError:
        raise UsageError(
            f"HF_ENDPOINT is {endpoint!r}, which is no address.", "Correct or unset it."
        ) from None
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")):
        return True  # behind a proxy a direct connection says nothing
    try:
        with socket.create_connection((address.hostname or "", port), timeout=seconds):
            return True
    except OSError:
        return False
