"""The reckoning for a million users: plain multiplication, checked by hand once."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.serving_million import Assumed, Measured, page, reckon

ROWS = {"user": 100.0, "class": 10.0, "photo": 20.0, "version": 30.0, "training": 40.0}
MEASURED = Measured(stored=500_000, member=100_000, request=0.05, image=0.02, training=20, rows=ROWS)
ASSUMED = Assumed(
    users=864_000, active=0.5, photos=10, photo_kb=100, thumbnail_kb=10, classes=2, versions=3,
    predictions=2, trainings=3.0, busy=2.0, filled=0.5,
)  # fmt: skip


def test_the_sums_are_right():
    found = {what: much.strip("*") for what, much, _ in reckon(ASSUMED, MEASURED)}
    assert found["photos, in the object store"] == "864 GB"
    assert found["thumbnails"] == "86.4 GB"
    assert found["classifiers, in the object store"] == "1.3 TB"
    assert (
        found["rows, in PostgreSQL"] == "1.05 GB"
    )  # 100 + 2·10 + 10·20 + 3·30 + 20·40 bytes: 20 trainings are kept
    assert found["memory for a day's active users' classifiers"] == "43.2 GB"
    assert found["predictions a second: mean, busiest hour"] == "10, 20"
    assert found["cores that answer, in the busiest hour"] == "2"
    assert found["trainings a second: mean, busiest hour"] == "1.00, 2.00"
    assert found["cores that train, in the busiest hour"] == "80"


def test_the_page_is_a_table():
    lines = page(reckon(replace(ASSUMED, users=1_000_000), MEASURED), Assumed()).splitlines()
    assert lines[0] == "| 1,000,000 users | | from |"
    assert {line.count("|") for line in lines} == {4}
