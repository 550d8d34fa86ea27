"""The progress of a federation in words."""

from __future__ import annotations

import pytest

from filmtransfer.cli.federate_status import describe_result, describe_round, is_shown, show_status
from filmtransfer.cli.progress import phases


def test_a_round_as_a_line_of_text():
    record = {
        "round": 2, "clients": ["a", "b", "c", "d"], "contributed": ["a", "b", "d"], "missing": {"c": "it is off."},
        "refused": {}, "loss": 0.5, "outliers": ["d"],
    }  # fmt: skip
    assert describe_round(record, 4) == "Round 2 of 4: 3 clients, missing: c, outliers: d, loss 0.500."


def test_rounds_count_from_one():
    assert not is_shown({"round": 0})
    before = {"round": 0, "personalized": 0.5, "evaluated_images": 1, "leave_one_out": False}
    assert is_shown(before)
    assert describe_round(before, 4) == "Before the first round: personalized 50% on one test image."


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        ({"accuracy": 0.75, "test_images": 8}, "accuracy 75% on 8 test images"),
        ({"accuracy": 0.7551}, "accuracy 75.5%"),
        (
            {"personalized": 0.875, "evaluated_images": 400, "leave_one_out": True},
            "personalized 87.5% on 400 training images (leave-one-out)",
        ),
        ({"epsilon": 1.234, "delta": 1e-5}, "ε 1.23 at δ 1e-05"),
    ],
)
def test_what_was_measured_says_on_which_images(measured, words):
    record = {"round": 1, "clients": ["a"], "contributed": ["a"], "missing": {}, "refused": {}}
    assert describe_round(record | measured, 1) == f"Round 1 of 1: one client, {words}."


def test_the_result_of_a_deployment_in_words():
    result = {"rounds": 1, "classes": ["a", "b"], "accuracy": 0.5, "test_images": 10}
    assert describe_result(result, "global.safetensors") == (
        "Finished after one round: global.safetensors, a classifier of 2 classes. Accuracy 50% on 10 test images."
    )


def test_without_a_terminal_every_new_phase_is_a_line(capsys):
    """A phase is repeated with other clients and accuracies; rounds have lines of their own."""
    with phases() as display:
        for status in (
            "Waiting for clients · no client is connected",
            "Waiting for clients · connected: anna",
            "Round 1 of 2: anna training · connected: anna",
            "Summing the statistics of all classes · connected: anna · accuracy 50%",
        ):
            show_status(display, status)
    assert capsys.readouterr().err.splitlines() == [
        "Waiting for clients …",
        "Summing the statistics of all classes …",
    ]
