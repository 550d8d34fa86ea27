"""Run inputs in child processes with limits, and record what each of them reached."""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import resource
import select
import signal
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SECONDS = 2.0  # of the processor, for one input
TRACED_SECONDS = (
    5 * SECONDS
)  # recording the coverage takes time too; what took more than SECONDS is repeated without it
WAITING_SECONDS = 5 * SECONDS  # of the clock, for an input that waits for something
SILENCE = (
    60.0  # seconds without an answer until a child counts as hanging in code that does not return to Python
)
MEMORY = 1 << 30  # bytes that one input may need beyond what the process had before

SOURCES = str(Path(__file__).parents[2] / "src") + os.sep

Edge = tuple[str, int, int]  # a file, a line, and the line that ran before it


@dataclass(frozen=True)
class Outcome:
    """What happened to an input; ``kind`` is empty if all is well."""

    kind: str = ""  # the name of an exception, or "hang", "memory", "crash"
    where: str = ""  # the innermost line of our own sources
    message: str = ""
    edges: frozenset[Edge] = frozenset()  # that no earlier input reached
    seconds: float = 0.0  # of the processor

    @property
    def failure(self) -> tuple[str, str] | None:
        """What failures have in common that are the same bug."""
        return (self.kind, self.where) if self.kind else None


class Hang(BaseException):
    """An input took more time than it may."""


def run_inputs(
    run: Callable[[bytes], object],
    inputs: Sequence[bytes],
    *,
    known: Collection[Edge] | None = None,
    traced: Sequence[str] = (),
) -> Iterator[Outcome]:
    """Yield the outcome of each input; ``known`` are the edges reached before, None records no coverage."""
    done = 0
    while done < len(inputs):
        for outcome in _in_child(run, inputs[done:], known, (SOURCES, *traced)):
            done += 1
            yield outcome


def _in_child(
    run: Callable[[bytes], object],
    inputs: Sequence[bytes],
    known: Collection[Edge] | None,
    folders: tuple[str, ...],
) -> Iterator[Outcome]:
    """Yield outcomes until the child has ended: after all inputs, or after one that it did not survive."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _serve(run, inputs, known, folders, writing)
        finally:
            os._exit(0)
    os.close(writing)
    reported, hung = 0, False
    try:
        while (header := _read(reading, 4)) and (report := _read(reading, struct.unpack("<I", header)[0])):
            reported += 1
            yield pickle.loads(report)
    except TimeoutError:
        hung = True
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if reported < len(inputs) and (hung or os.WIFSIGNALED(status)):
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        died = number not in (0, signal.SIGKILL)
        yield Outcome("crash", message=signal.Signals(number).name) if died and not hung else Outcome("hang")
    elif reported == 0:
        yield Outcome("crash", message="the process ended")


def _read(handle: int, count: int) -> bytes:
    """Return so many bytes of a pipe, none if it was closed before."""
    content = b""
    while len(content) < count:
        if not select.select([handle], [], [], SILENCE)[0]:
            raise TimeoutError
        part = os.read(handle, count - len(content))
        if not part:
            return b""
        content += part
    return content


def _serve(
    run: Callable[[bytes], object],
    inputs: Sequence[bytes],
    known: Collection[Edge] | None,
    folders: tuple[str, ...],
    writing: int,
) -> None:
    """Run inputs and report each outcome; end after one that took too much, as its threads may still run."""
    quiet = os.open(os.devnull, os.O_RDWR)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    faulthandler.disable()
    gc.freeze()
    tracer = Tracer(known, folders)
    seconds = SECONDS if known is None else TRACED_SECONDS
    signal.signal(signal.SIGPROF, _interrupt)
    signal.signal(signal.SIGALRM, _interrupt)
    for data in inputs:
        _limit_memory()
        outcome = tracer.run(run, data, seconds)
        report = pickle.dumps(outcome)
        _write_all(writing, struct.pack("<I", len(report)) + report)
        if outcome.kind in ("hang", "memory"):
            return


def _write_all(handle: int, content: bytes) -> None:
    while content:
        content = content[os.write(handle, content) :]


def _interrupt(*_: object) -> None:
    raise Hang


def _limit_memory() -> None:
    """Limit the address space to what is in use now and ``MEMORY``."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


class Tracer:
    """Records new edges of the sources, and errors for lack of memory, which libraries and we turn into others."""

    def __init__(self, known: Collection[Edge] | None, folders: tuple[str, ...]) -> None:
        self.coverage, self.folders = known is not None, folders
        self.known = set(known or ())
        self.edges: set[Edge] = set()
        self.out_of_memory = ""
        self._traced: dict[CodeType, bool] = {}

    def run(self, run: Callable[[bytes], object], data: bytes, seconds: float) -> Outcome:
        """Run one input within its time."""
        self.edges, self.out_of_memory = set(), ""
        start = time.process_time()
        kind = where = message = ""
        threading.settrace(self._call)
        sys.settrace(self._call)
        try:
            try:
                signal.setitimer(signal.ITIMER_PROF, seconds)
                signal.setitimer(signal.ITIMER_REAL, max(WAITING_SECONDS, seconds))
                run(data)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
                signal.setitimer(signal.ITIMER_REAL, 0)
                sys.settrace(None)
        except Hang as error:
            kind, where = "hang", innermost(error)
        except MemoryError as error:
            kind, where = "memory", innermost(error)
        except Exception as error:
            kind, where, message = type(error).__name__, innermost(error), str(error)[:200]
        if self.out_of_memory:
            kind, where, message = "memory", self.out_of_memory, ""
        new = frozenset(self.edges - self.known)
        self.known |= new
        return Outcome(kind, where, message, new, time.process_time() - start)

    def _call(self, frame: FrameType, _: str, __: Any) -> Any:
        code = frame.f_code
        traced = self._traced.get(code)
        if traced is None:
            traced = self._traced[code] = code.co_filename.startswith(self.folders)
        if not traced:
            return None
        frame.f_trace_lines = self.coverage
        file, before = code.co_filename, 0

        def step(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal before
            if event == "line":
                self.edges.add((file, frame.f_lineno, before))
                before = frame.f_lineno
            elif event == "exception" and issubclass(arg[0], MemoryError):
                self.out_of_memory = self.out_of_memory or _place(file, frame.f_lineno)
            return step

        return step


def innermost(error: BaseException) -> str:
    """Return the innermost line of our sources in a traceback, or the innermost of all."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(SOURCES)] or frames
    return _place(ours[-1].filename, ours[-1].lineno or 0) if ours else ""


def _place(file: str, line: int) -> str:
    name = file.removeprefix(SOURCES) if file.startswith(SOURCES) else Path(file).name
    return f"{name}:{line}"
