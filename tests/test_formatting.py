"""Numbers as text for people."""

from __future__ import annotations

from dataclasses import dataclass

from filmtransfer.formatting import (
    accuracy_figures,
    accuracy_text,
    capitalize,
    count,
    digits_for,
    duration,
    file_size,
    finite_json,
    percent,
    percent_interval,
    printable,
    printable_line,
    spell_out,
    times,
)
from filmtransfer.training.assess.evaluation import wilson


@dataclass
class Measured:
    accuracy: float
    low: float
    high: float
    images: int


def measured(correct: int, images: int) -> Measured:
    return Measured(correct / images, *wilson(correct, images), images)


def test_only_exactly_zero_and_one_are_shown_as_0_and_100_percent():
    assert [percent(s, 0) for s in (0, 0.001, 0.5, 0.999, 1)] == ["0%", "1%", "50%", "99%", "100%"]
    assert [percent(s) for s in (0, 0.0001, 0.12345, 0.99951, 1)] == [
        "0.0%",
        "0.1%",
        "12.3%",
        "99.9%",
        "100.0%",
    ]


def test_a_percentage_of_few_images_has_no_decimals():
    assert [digits_for(images) for images in (10, 199, 200)] == [0, 0, 1]


def test_counts_agree_with_their_nouns():
    assert [count(n, "photo") for n in (0, 1, 2, 1200)] == [
        "no photos",
        "one photo",
        "2 photos",
        "1,200 photos",
    ]
    assert count(2, "class", "classes") == "2 classes"
    assert [times(n) for n in (1, 2, 3)] == ["once", "twice", "3 times"]
    assert [spell_out(n) for n in (3, 12, 13)] == ["three", "twelve", "13"]
    assert capitalize("two photos of Ada") == "Two photos of Ada"


def test_sizes_and_durations_have_units():
    assert [file_size(n) for n in (130_400, 999_499, 1_250_000)] == ["130 KB", "999 KB", "1.2 MB"]
    assert [duration(s) for s in (5, 89, 120, 7200)] == ["5 s", "89 s", "2 min", "2.0 h"]


def test_every_interval_that_is_shown_contains_its_accuracy():
    for images in range(1, 251):
        for correct in range(images + 1):
            result = measured(correct, images)
            assert result.low <= result.accuracy <= result.high
            texts = accuracy_figures(result)
            accuracy, low, high = (float(text.rstrip("%")) for text in texts)
            assert 0 <= low <= accuracy <= high <= 100, (correct, images, texts)
            assert low <= 100 * result.low + 1e-4, "rounded outwards"
            assert high >= 100 * result.high - 1e-4
            assert (accuracy in (0, 100)) == (correct in (0, images)), "only exactly none and all"
            assert low < high


def test_intervals_at_none_and_all_read_well():
    assert accuracy_text(measured(10, 10)) == "100% (95% interval 72% to 100%)"
    assert accuracy_text(measured(0, 1)) == "0% (95% interval 0% to 80%)"
    assert accuracy_text(measured(199, 200)) == "99.5% (95% interval 97.2% to 100.0%)"


def test_an_end_at_a_round_percentage_stays_there():
    assert percent_interval(0.29, 0.57) == ("29%", "57%"), "100 · 0.29 is 28.999… and 100 · 0.57 is 56.999…"
    assert percent_interval(0.291, 0.571) == ("29%", "58%")


def test_text_of_others_cannot_command_a_terminal():
    hostile = "\x1b[2J\x1b]0;title\x07 a\rb \u202edcba\u2066 \x9b1m \udcff\u2028"
    assert printable(hostile) == (
        "\\x1b[2J\\x1b]0;title\\x07 a\\rb \\u202edcba\\u2066 \\x9b1m \\udcff\\u2028"
    )
    harmless = "Tasse\tblau\nمرحبا שלום 日本 👩\u200d🚀 نمی\u200cخواهم \N{NO-BREAK SPACE}é"
    assert printable(harmless) == harmless


def test_a_name_cannot_pass_for_a_line_of_its_own():
    assert printable_line("cup\nfit: all is well\t100%") == "cup\\nfit: all is well\\t100%"
    invisible = "a\u180e\u034f\u3164\U000e0041"
    assert printable_line(invisible) == "a\\u180e\\u034f\\u3164\\U000e0041"


def test_numbers_that_json_does_not_have_become_null():
    assert finite_json({"a": [1.0, float("nan")], "b": (float("inf"), "nan")}) == {
        "a": [1.0, None],
        "b": [None, "nan"],
    }
