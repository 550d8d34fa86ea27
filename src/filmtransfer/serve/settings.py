"""The limits of a service, and defaults that the command, the server and the workers share."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..budgets import MAX_IMAGE_MEMORY
from ..errors import UsageError

PORT = 8000
LEASE: float = 60  # seconds after which the training of a worker that died is claimed by another
MAX_LEASE: float = 3600
WORKER_IDLE: float = 300  # seconds without a training after which a worker ends; 0: workers never end
WORKER_READY = "is ready"  # in the line that a worker prints when it can claim trainings
CACHE_MB = 256  # memory for cached classifiers
MAX_STEPS = 1000  # of one training
DEFAULT_FOLDER = "fit-serve"  # of a service
MAX_PROJECTS = 50  # of one user
MIN_VERSIONS = 1  # of a quota: a new version replaces the oldest
RATE_OF_ADDRESS = 5  # times the requests of a token: several people may share an address


@dataclass(frozen=True)
class ServiceSettings:
    """The limits that keep one client from using all memory or all time."""

    admin_digest: str = ""  # SHA-256 of the admin's token; empty: there is no admin
    max_photo_bytes: int = 20_000_000  # of a photo
    max_update_bytes: int = 64_000_000  # of an update file
    max_json_bytes: int = 64_000  # of any other body
    max_image_size: int = 512  # pixels: the largest image size of an uploaded classifier
    rate: int = 3000  # requests per minute of one token
    max_connections: int = 4_000  # at the same time; fewer if the system allows the process fewer open files
    max_connections_of_address: int | None = None  # 0: no limit; None: depends on ServerConfig.listen
    max_head_seconds: float = 10.0  # from a connection, or a response, to the end of the next headers
    max_send_pause: float = 30.0  # seconds in which a client must take at least something of its response
    max_uploads: int = 16  # photos in memory at the same time, of one user half of them at most
    max_file_uploads: int = 2  # the same for update files
    max_waiting: int = 2_000  # requests that wait for that; their bodies are not read yet
    max_wait: float = 10.0  # seconds until such a request is refused, at once if that can be foreseen
    max_pause: float = 20.0  # seconds that a client may pause within a body
    max_body_seconds: float = 300.0  # for a complete body
    decoders: int = 2  # images decoded at the same time, each by a process of its own
    decoder_megabytes: int = MAX_IMAGE_MEMORY // 10**6 + 150  # of each; Python and libraries take about 60
    max_decode_seconds: int = 10  # for one image, also on a busy machine; the slowest takes about 4 s
    max_downloads: int = 1  # files made at the same time: each takes a core and, for ONNX, about 600 MB
    max_downloads_of_user: int = 4  # being made or waiting
    max_download_seconds: int = 180  # to make a file
    max_download_wait: float = 240.0  # seconds until it begins: longer than another user's file takes
    max_download_megabytes: int = 4000  # of memory to make a file
    max_event_streams: int = 8  # open at the same time for one user
    poll_seconds: float = 0.5  # between two queries for the events of a training
    heartbeat_seconds: float = 15.0  # without an event until a comment shows that the connection is alive


def read_rate(text: str) -> int:
    """Return the requests per minute of ``600/minute`` or ``600``."""
    match = re.fullmatch(r"\s*(\d{1,7})\s*(/\s*(minute|min))?\s*", text)
    if not match or int(match[1]) == 0:
        raise UsageError(f"{text!r} is not a rate.", "Give the requests per minute, as in 600/minute.")
    return int(match[1])
