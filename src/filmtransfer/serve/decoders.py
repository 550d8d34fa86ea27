"""The processes in which a service decodes the images of its users (decoder.py).

A decoder that crashes, hangs or takes too much memory costs the request that it worked on; the next one gets another
process. A process that has been started is kept. All of them end with the service, even if it is killed: their input does.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import numpy as np

from ..data.pixels import MAX_SIZE, PixelSpec
from ..errors import InputError, UnavailableError
from .decoder import Message, describe, receive, send
from .downloads import child_environment
from .settings import ServiceSettings

MODULE = "filmtransfer.serve.decoder"
PIPE_BYTES = 2**20  # of the buffer of a pipe, where the system allows it: a photo is passed in a few pieces
MAX_RESPONSE = 3 * MAX_SIZE**2  # bytes
MEDIA_TYPE = re.compile(r"image/(?!svg)[a-z0-9-]+")
HINT = "Send a JPEG, PNG, WebP or HEIC photo."

log = logging.getLogger("filmtransfer.serve")


class DecoderProcess:
    """A process that decodes one image after the other."""

    def __init__(self, settings: ServiceSettings) -> None:
        limits = [str(settings.decoder_megabytes), str(settings.max_decode_seconds)]
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULE, *limits],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # libraries print warnings about images
                env=child_environment(os.environ),
                pipesize=PIPE_BYTES if sys.platform == "linux" else -1,
                start_new_session=True,  # Ctrl-C goes to the service only
            )
        except OSError as error:
            log.error("a decoder cannot be started: %s", error)
            raise UnavailableError("Images cannot be decoded now.", "Try again in a moment.") from None

    def ask(self, request: dict[str, Any], content: bytes) -> Message | None:
        """Return the response to a request, or None if the process has ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            send(self.process.stdin, request, content)
            return receive(self.process.stdout, MAX_RESPONSE)
        except (OSError, ValueError):  # the pipe is closed, or the response is no document
            return None

    def alive(self) -> bool:
        """Return whether the process is running."""
        return self.process.poll() is None

    def end(self) -> int:
        """End the process, and return its exit code; it has nothing to lose."""
        with suppress(
            subprocess.TimeoutExpired
        ):  # one that is ending by itself has an exit code that tells why
            self.process.wait(0.5)
        self.process.kill()
        code = self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # bytes that could not be written
                assert pipe is not None
                pipe.close()
        return code


class Decoders:
    """As many processes as images are decoded at the same time, which the caller limits; thread-safe."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings = settings
        self._idle: list[DecoderProcess] = []
        self._all: set[DecoderProcess] = set()
        self._lock = threading.Lock()
        self._closed = False

    def start(self) -> None:
        """Start a process before it is needed, without waiting for it."""
        self._release(self._take())

    def thumbnail(self, content: bytes) -> tuple[str, bytes]:
        """Return the media type of an image file, and a thumbnail of it."""
        document, thumbnail = self._decode({}, content)
        media_type = str(document.get("media_type"))
        if not MEDIA_TYPE.fullmatch(media_type):  # it becomes the type of a response
            raise unusable("its format is not known")
        return media_type, thumbnail

    def square(self, content: bytes, spec: PixelSpec) -> np.ndarray:
        """Return an image file as uint8 (3, S, S)."""
        _, pixels = self._decode(describe(spec), content)
        if len(pixels) != 3 * spec.size**2:
            raise unusable("it could not be decoded")
        return np.frombuffer(pixels, np.uint8).reshape(3, spec.size, spec.size)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            processes, self._all = self._all, set()
        for one in processes:
            one.process.kill()
        for one in processes:
            one.process.wait()
        for one in self._idle:  # the others are closed by the threads that wait for their responses
            one.end()

    def _decode(self, request: dict[str, Any], content: bytes) -> Message:
        document, result = self._ask(request, content)
        if "error" in document:
            raise unusable(str(document["error"]))
        return document, result

    def _ask(self, request: dict[str, Any], content: bytes) -> Message:
        decoder = self._take()
        response = None
        try:
            response = decoder.ask(request, content)
        finally:
            if response is None:
                self._replace(decoder)
        if response is None:
            raise unusable(self._reason(decoder))
        self._release(decoder)
        return response

    def _take(self) -> DecoderProcess:
        """Return a process that has nothing to do, or start one."""
        with self._lock:
            while self._idle:
                decoder = self._idle.pop()
                if decoder.alive():
                    return decoder
                self._all.discard(decoder)
                decoder.end()
            if self._closed:
                raise UnavailableError("The service is ending.", "Try again in a moment.")
            decoder = DecoderProcess(self.settings)
            self._all.add(decoder)
            return decoder

    def _release(self, decoder: DecoderProcess) -> None:
        with self._lock:
            if not self._closed:
                self._idle.append(decoder)
                return
        decoder.end()

    def _replace(self, decoder: DecoderProcess) -> None:
        with self._lock:
            self._all.discard(decoder)
        decoder.end()

    def _reason(self, decoder: DecoderProcess) -> str:
        code = decoder.process.returncode
        log.warning("a decoder ended with exit code %s", code)
        if code == -signal.SIGALRM:
            return f"decoding it takes more than {self.settings.max_decode_seconds} s"
        return "it could not be decoded"


def unusable(reason: str) -> InputError:
    """Return the error for an image that cannot be used."""
    return InputError(f"This image cannot be used: {reason.rstrip('.')}.", HINT)
