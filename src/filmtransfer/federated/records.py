"""The record of a round, as ``rounds.jsonl`` and the checkpoint store it, the result, and the names of the files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from ..files import open_private

GLOBAL_UPDATE = "global.safetensors"  # in the folder of the server
PERSONAL_UPDATE = "personal.safetensors"  # in the folder of a client
LOG_FILE = "messages.jsonl"  # beside rounds.jsonl: the server's messages for people
RESULT_FILE = "result.json"


class RoundRecord(TypedDict, total=False):
    """All or part of what is recorded of a round; round 0 is the evaluation before the first."""

    round: int
    unfinished: bool  # in a checkpoint: the round has its ψ, which is still to be evaluated
    clients: list[str]  # that were chosen
    contributed: list[str]  # those whose updates are in the aggregated one
    # The clients that did not contribute, and why.
    missing: dict[str, str]
    refused: dict[str, str]
    # The aggregation; with secure aggregation or privacy less is known.
    examples: int
    loss: float
    outliers: list[str]
    # The communication; down is to the clients, up from them.
    parameters_down: int
    parameters_up: int
    bytes_down: int
    bytes_up: int
    # The accuracy of the global classifier and of the clients' personalized ones.
    accuracy: float
    test_images: int  # that the accuracy of the global classifier was measured on
    personalized: float  # the mean over the clients in a simulation, over their images otherwise
    clients_accuracy: list[float] | dict[str, float]
    evaluated_images: int  # that the personalized accuracy was measured on
    leave_one_out: bool  # whether those were training images, because no client has test images
    # The privacy spent so far.
    epsilon: float
    delta: float


class DeploymentResult(TypedDict, total=False):
    """How a deployed federation ended: its result, or an error."""

    rounds: int
    classes: list[str]
    bytes: int
    clients: list[str]
    traffic: dict[str, RoundRecord]
    accuracy: float
    test_images: int
    estimate: dict[str, object] | None
    temperature: float
    # The arguments of the run, by which a federation that has finished is recognised.
    planned_rounds: int
    assess: bool
    test: str
    error: str
    hint: str
    exit_code: int
    folder: str
    lines: list[RoundRecord]


Log = Callable[[str], None]  # receives messages for people, one line each
OnRound = Callable[[RoundRecord], None]
OnStatus = Callable[[str], None]  # receives what is being done now, for a line that is replaced
OnNames = Callable[
    [Mapping[int, str]], None
]  # receives the names of the nodes that have described themselves
SEPARATOR = " · "  # in a status: between what is being done, who is connected, and the last accuracy


@dataclass(frozen=True)
class Observer:
    """The callbacks that report what happens in a federation."""

    log: Log = lambda _: None
    on_round: OnRound = lambda _: None
    on_status: OnStatus = lambda _: None
    on_names: OnNames = lambda _: None


JsonObject = dict[str, object]


def append_json_line(path: Path, line: Mapping[str, object]) -> None:
    """Append a line to a file that another process follows."""
    with open(open_private(path), "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def read_json_lines(path: Path) -> list[JsonObject]:
    """Return the complete lines of a file; not an incomplete last one, nor what follows a damaged one."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    lines: list[JsonObject] = []
    for text_line in text.splitlines():
        try:
            line = json.loads(text_line)
        except (ValueError, RecursionError):
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines


class JsonLineReader:
    """Follows the lines that another process appends to a file; those of earlier runs are skipped."""

    def __init__(self, path: Path) -> None:
        self.path, self.count = path, len(read_json_lines(path))

    def new_lines(self) -> list[JsonObject]:
        """Return the complete lines appended since the last call."""
        new = read_json_lines(self.path)[self.count :]
        self.count += len(new)
        return new
