"""What the owner of a service may choose, and the numbers that keep it standing."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from ..errors import UsageError


@dataclass(frozen=True)
class Settings:
    """Limits are there so that one visitor cannot take the memory or the time of all others."""

    admin: str = ""  # SHA-256 of the admin token; empty: there is none, and nobody is the admin
    max_photo_bytes: int = 20_000_000
    max_update_bytes: int = 64_000_000
    max_json_bytes: int = 64_000
    max_image_size: int = 512  # pixels that an uploaded classifier may look at, each way
    rate: int = 3000  # requests a minute of one token; an address may make AT_ONE_ADDRESS times as many
    uploads: int = (
        16  # photos and files received at the same time, half of them of one user; each is held in memory
    )
    silence: float = 20.0  # seconds that a sender may pause within a body
    body_seconds: float = 300.0  # and how long all of it may take
    decoders: int = 2  # images decoded at the same time; one may need 300 MB
    streams: int = 8  # event streams that one user may have open
    poll: float = 0.5  # seconds between two looks for a training's news
    heartbeat: float = 15.0  # seconds after which a silent stream says that it is still there


AT_ONE_ADDRESS = 5  # several people may sit behind one address


def hash_token(token: str) -> str:
    """What is kept of a token: enough to know it again."""
    return hashlib.sha256(token.encode()).hexdigest()


def read_rate(text: str) -> int:
    """``600/minute``, or just ``600``."""
    found = re.fullmatch(r"\s*(\d{1,7})\s*(/\s*(minute|min))?\s*", text)
    if not found or int(found[1]) == 0:
        raise UsageError(f"The rate cannot be {text!r}.", "It is requests a minute, as in 600/minute.")
    return int(found[1])
