"""The processes in which a service decodes the images of its users (decoder.py).

A decoder that crashes, hangs or takes too much memory costs the request that it worked on; the next one gets another
process. A process is kept for some images. All of them end with the service, even if it is killed: their input does.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from ..data.pixels import MAX_SIZE, PixelSpec
from ..errors import FitError, InputError, UnavailableError
from .decoder import Message, describe, receive, send
from .downloads import child_environment
from .settings import ServiceSettings

MODULE = "filmtransfer.serve.decoder"
PIPE_BYTES = 2**20  # of the buffer of a pipe, where the system allows it: a photo is passed in a few pieces
MAX_IMAGES = 200  # that one process decodes: whatever one of them has done to it ends then
LAST_IMAGES = 20  # of a process, during which the next one starts
MAX_RESPONSE = 3 * MAX_SIZE**2  # bytes
MEDIA_TYPE = re.compile(r"image/(?!svg)[a-z0-9-]+")
HINT = "Send a JPEG, PNG, WebP or HEIC photo."

log = logging.getLogger("filmtransfer.serve")


class DecoderProcess:
    """A process that decodes one image after the other."""

    def __init__(self, settings: ServiceSettings) -> None:
        self.images = 0
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
        self.images += 1
        try:
            send(self.process.stdin, request, content)
            return receive(self.process.stdout, MAX_RESPONSE)
        except (OSError, ValueError):  # the pipe is closed, or the response is no document
            return None

    def alive(self) -> bool:
        """Return whether the process is running."""
        return self.process.poll() is None

    def end(self) -> int | None:
        """End the process, which has nothing to lose; return its exit code if it has ended by itself."""
        code = None
        with suppress(subprocess.TimeoutExpired):
            code = self.process.wait(0.5)
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):  # bytes that could not be written
                assert pipe is not None
                pipe.close()
        return code


class DecodeJob:
    """The decoding of an image, which can be cancelled from any thread."""

    def __init__(self) -> None:
        self.cancelled = False
        self.seconds: float | None = None  # of a processor, if its decoder has responded
        self._lock = threading.Lock()
        self._decoder: DecoderProcess | None = None

    def cancel(self) -> None:
        """End the decoder that works on the image."""
        with self._lock:
            self.cancelled = True
            if self._decoder is not None:
                self._decoder.process.kill()

    @contextmanager
    def running(self, decoder: DecoderProcess) -> Iterator[None]:
        """Let a decoder work on the image."""
        with self._lock:
            self._decoder = decoder
            if self.cancelled:
                decoder.process.kill()
        try:
            yield
        finally:
            with self._lock:
                self._decoder = None


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

    def thumbnail(self, content: bytes, job: DecodeJob | None = None) -> tuple[str, bytes]:
        """Return the media type of an image file, and a thumbnail of it."""
        document, thumbnail = self._decode({}, content, job)
        media_type = str(document.get("media_type"))
        if not MEDIA_TYPE.fullmatch(media_type):  # it becomes the type of a response
            raise unusable("its format is not known")
        return media_type, thumbnail

    def square(self, content: bytes, spec: PixelSpec, job: DecodeJob | None = None) -> np.ndarray:
        """Return an image file as uint8 (3, S, S)."""
        _, pixels = self._decode(describe(spec), content, job)
        if len(pixels) != 3 * spec.size**2:
            raise unusable("it could not be decoded")
        return np.frombuffer(pixels, np.uint8).reshape(3, spec.size, spec.size)

    def close(self) -> None:
        """End all processes; images that are being decoded are refused."""
        with self._lock:
            self._closed = True
            processes, self._all = self._all, set()
            idle, self._idle = self._idle, []
        for one in processes:
            one.process.kill()
        for one in idle:  # the others are closed by the threads that wait for their responses
            one.end()

    def _decode(self, request: dict[str, Any], content: bytes, job: DecodeJob | None) -> Message:
        document, result = self._ask(request, content, job or DecodeJob())
        if "error" in document:
            raise unusable(str(document["error"]))
        return document, result

    def _ask(self, request: dict[str, Any], content: bytes, job: DecodeJob) -> Message:
        decoder = self._take()
        response = None
        try:
            with job.running(decoder):
                response = decoder.ask(request, content)
        finally:
            if response is None or job.cancelled or decoder.images >= MAX_IMAGES:
                code = self._replace(decoder)
            else:
                self._release(decoder)
        if response is None:
            raise self._error(code, job)
        seconds = response[0].get("seconds")
        if isinstance(seconds, float) and seconds >= 0:  # whatever an image has made of the process
            job.seconds = seconds
        if decoder.images == MAX_IMAGES - LAST_IMAGES:
            self._start_next()
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

    def _replace(self, decoder: DecoderProcess) -> int | None:
        """End a process, start another one, and return the exit code if the process has ended by itself."""
        if decoder.images >= MAX_IMAGES:
            decoder.process.kill()
        code = decoder.end()
        with self._lock:
            self._all.discard(decoder)
            enough = len(self._all) >= self.settings.decoders
        if not enough:
            self._start_next()
        return code

    def _start_next(self) -> None:
        """Start a process that is used when no other one has nothing to do."""
        with self._lock:
            if not self._closed:
                with suppress(UnavailableError):  # the next image gets the error
                    self._idle.insert(0, DecoderProcess(self.settings))
                    self._all.add(self._idle[0])

    def _error(self, code: int | None, job: DecodeJob) -> FitError:
        """Return the error for an image whose decoder has ended."""
        if self._closed:
            return UnavailableError("The service is ending.", "Try again in a moment.")
        log.warning("a decoder ended with exit code %s", code)
        if code == -signal.SIGALRM:
            return unusable(f"decoding it takes more than {self.settings.max_decode_seconds} s")
        if job.cancelled or code == -signal.SIGKILL:  # by the system, which has too little memory
            return UnavailableError("Images cannot be decoded now.", "Try again in a moment.")
        return unusable("it could not be decoded")


def unusable(reason: str) -> InputError:
    """Return the error for an image that cannot be used."""
    return InputError(f"This image cannot be used: {reason.rstrip('.')}.", HINT)
