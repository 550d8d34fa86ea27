"""The progress of a federation in words: one line per round, and a line with its status."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..formatting import count, digits_for, percent
from .printing import Printer
from .progress import PhaseDisplay, phases

if TYPE_CHECKING:
    from ..federated.records import DeploymentResult, Observer, RoundRecord


@contextmanager
def observing(printer: Printer, rounds: int) -> Iterator[Observer]:
    """Yield what prints the progress of a federation."""
    from ..federated.records import Observer

    with phases() as display:
        yield Observer(
            log=printer.say,
            on_round=lambda record: printer.say(describe_round(record, rounds)) if is_shown(record) else None,
            on_status=lambda status: show_status(display, status),
        )


def show_status(display: PhaseDisplay, status: str) -> None:
    """Show what a federation is doing: on a terminal all of it, elsewhere a line when it begins something else.

    Without a terminal a round has its line at the end only.
    """
    from ..federated.records import SEPARATOR

    if display.bar is not None:
        display.phase(status)
    elif not status.startswith("Round "):
        display.phase(status.partition(SEPARATOR)[0])


def is_shown(record: RoundRecord) -> bool:
    """Return whether there is something to print about a round: before the first one only an evaluation."""
    return bool(record["round"]) or "accuracy" in record or "personalized" in record


def describe_round(record: RoundRecord, rounds: int) -> str:
    """Return a round as one line of text; its number counts from 1, and 0 is the evaluation before."""
    title = f"Round {record['round']} of {rounds}" if record["round"] else "Before the first round"
    return f"{title}: {', '.join(_contributions(record) + _measurements(record))}."


def _contributions(record: RoundRecord) -> list[str]:
    """Return who took part in a round, and who did not."""
    if not record["round"]:
        return []
    return [
        count(len(record["contributed"]), "client"),
        *(
            f"{what}: {', '.join(sorted(clients))}"
            for what, clients in (
                ("missing", record["missing"]),
                ("refused", record["refused"]),
                ("outliers", record.get("outliers")),
            )
            if clients
        ),
    ]


def _measurements(record: RoundRecord) -> list[str]:
    """Return the loss, the accuracies and the spent privacy of a round, as far as they are known."""
    parts = []
    if "loss" in record:
        parts.append(f"loss {record['loss']:.3f}")
    if "accuracy" in record:
        parts.append(f"accuracy {_on_images(record['accuracy'], record.get('test_images'), 'test image')}")
    if "personalized" in record:
        what = "training image" if record.get("leave_one_out") else "test image"
        measured = _on_images(record["personalized"], record.get("evaluated_images"), what)
        parts.append(f"personalized {measured}" + (" (leave-one-out)" if record.get("leave_one_out") else ""))
    if "epsilon" in record:
        parts.append(f"ε {record['epsilon']:.2f} at δ {record['delta']:g}")
    return parts


def _on_images(accuracy: float, images: int | None, what: str) -> str:
    if images is None:  # of a simulation, whose images were counted before
        return percent(accuracy)
    return f"{percent(accuracy, digits_for(images))} on {count(images, what)}"


def describe_result(result: DeploymentResult, path: object) -> str:
    """Return how a deployed federation ended, in a line of text."""
    classes = count(len(result["classes"]), "class", "classes")
    measured = ""
    if "accuracy" in result:
        measured = f" Accuracy {_on_images(result['accuracy'], result['test_images'], 'test image')}."
    return f"Finished after {count(result['rounds'], 'round')}: {path}, a classifier of {classes}.{measured}"
