"""Numbers as text for people."""

from __future__ import annotations

from filmtransfer.formatting import (
    capitalize,
    count,
    digits_for,
    duration,
    file_size,
    percent,
    spell_out,
    times,
)


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
