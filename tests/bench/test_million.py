"""The estimate for a million users, against values computed by hand."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.serving_million import Assumed, Measured, estimate, page

ROWS = {"user": 100.0, "class": 10.0, "photo": 20.0, "version": 30.0, "training": 40.0}
MEASURED = Measured(stored=500_000, member=100_000, request=0.05, image=0.02, training=20, rows=ROWS)
ASSUMED = Assumed(
    users=864_000, active=0.5, photos=10, photo_kb=100, thumbnail_kb=10, classes=2, versions=3,
    predictions=2, trainings=3.0, busy=2.0, filled=0.5,
)  # fmt: skip


def test_the_values_are_correct():
    values = {quantity: value.strip("*") for quantity, value, _ in estimate(ASSUMED, MEASURED)}
    assert values["photos, in the object store"] == "864 GB"
    assert values["thumbnails"] == "86.4 GB"
    assert values["classifiers, in the object store"] == "1.3 TB"
    assert (
        values["rows, in PostgreSQL"] == "1.05 GB"
    )  # 100 + 2·10 + 10·20 + 3·30 + 20·40 bytes: 20 trainings are stored
    assert values["memory for the classifiers of a day's active users"] == "43.2 GB"
    assert values["predictions per second: mean, busiest hour"] == "10, 20"
    assert values["cores for predictions in the busiest hour"] == "2"
    assert values["trainings per second: mean, busiest hour"] == "1.00, 2.00"
    assert values["cores for trainings in the busiest hour"] == "80"


def test_the_page_is_a_table():
    lines = page(estimate(replace(ASSUMED, users=1_000_000), MEASURED), Assumed()).splitlines()
    assert lines[0] == "| 1,000,000 users | | from |"
    assert {line.count("|") for line in lines} == {4}
