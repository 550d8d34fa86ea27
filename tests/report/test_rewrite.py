"""The report after an edit: its numbers are those of the edited update, and forgotten photos are gone."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filmtransfer.formatting import accuracy_figures
from filmtransfer.heads import make_head
from filmtransfer.model import Support, Update
from filmtransfer.report import collect_update, rewrite_report, write_report
from filmtransfer.report.page import page
from filmtransfer.report.pictures import read_embedded
from filmtransfer.training.assess.assessment import assess_update, with_assessment
from filmtransfer.training.edit import add_photos, forget_photos, merge_classes, remove_class, rename_class
from tests.report.small_report import LABELS, features, jpeg, update_of

NAMES = ["cup", "key", "pen", "pot"]
DIGESTS = [f"{i:032x}" for i in range(len(LABELS))]
PICTURES = {digest: jpeg(i) for i, digest in enumerate(DIGESTS)}
MISLABELLED = 3  # a photo that the report certainly shows


@pytest.fixture
def update() -> Update:
    z = features(LABELS)
    z[MISLABELLED] = z[9] + 0.1
    head = make_head("lda").configure(z, LABELS)
    names = [f"{NAMES[c]}/{i}.jpg" for i, c in enumerate(LABELS)]
    held_out = np.arange(len(LABELS)) % 2 == 0
    made = update_of(head, NAMES, support=Support(z, LABELS, held_out, names, DIGESTS))
    return with_assessment(made, assess_update(made))


@pytest.fixture
def file(update, tmp_path) -> Path:
    update.save(tmp_path / "cups.safetensors")
    return tmp_path / "cups.safetensors"


@pytest.fixture
def report(file) -> Path:
    path = file.with_name("cups.report.html")
    write_report(path, collect_update(file, PICTURES))
    return path


def rewrite(report: Path, edited: Update, **options: Any) -> bool:
    """Save the edited update beside the report and rewrite that."""
    file = report.with_name("cups.safetensors")
    edited.save(file)
    return rewrite_report(report, file, **options)


def contains(report: Path, i: int) -> bool:
    """Tell whether anything of photo i is in the page: its name, its digest or its picture."""
    text = report.read_text()
    name = f"{NAMES[LABELS[i]]}/{i}.jpg"
    return any(part in text for part in (name, DIGESTS[i], base64.b64encode(PICTURES[DIGESTS[i]]).decode()))


def test_pictures_are_read_back_from_a_page(report):
    embedded = read_embedded(report.read_text())
    assert len(embedded) > 5
    assert embedded.items() <= PICTURES.items()


def test_a_report_of_the_same_update_is_the_same_page(update, report):
    before = report.read_text()
    assert rewrite(report, update)
    assert report.read_text() == before


def test_nothing_of_a_forgotten_photo_remains(update, report):
    assert contains(report, MISLABELLED)
    shown = sum(contains(report, i) for i in range(len(LABELS)))
    edited = forget_photos(update, [MISLABELLED]).update
    assert rewrite(report, edited)
    assert not contains(report, MISLABELLED)
    assert sum(contains(report, i) for i in range(len(LABELS))) >= shown - 3, "the other photos are kept"
    text = report.read_text()
    accuracy, low, high = accuracy_figures(edited.estimate)
    assert f'<span class="number">{accuracy}</span>' in text
    assert f"anywhere from {low} to {high}." in text
    assert "made of your 31 photos" in text
    assert "deleted" not in text, "photos that the report had not shown have no picture, but exist"


def test_every_photo_keeps_its_picture_through_many_edits(update, report):
    """An edit may bring photos into the report that it has not shown before."""
    assert read_embedded(report.read_text()) == PICTURES
    edited = remove_class(merge_classes(update, ["cup", "pot"], "vessel").update, "key").update
    for i in (0, 1, 2):
        edited = forget_photos(edited, [i]).update
        assert rewrite(report, edited)
    assert "aria-label" in report.read_text()
    assert 'class="blank"' not in report.read_text()
    assert read_embedded(report.read_text()).keys() == set(edited.support.digests)


def test_nothing_of_a_removed_class_remains(update, report):
    assert rewrite(report, remove_class(update, "key").update)
    assert not any(contains(report, i) for i in range(8, 16))
    assert ">key<" not in report.read_text()
    assert "of three classes" in report.read_text()


def test_renamed_and_merged_classes_have_their_new_names(update, report):
    edited = merge_classes(rename_class(update, "pen", "biro"), ["cup", "pot"], "vessel").update
    assert rewrite(report, edited)
    text = report.read_text()
    assert ">biro<" in text
    assert ">vessel<" in text
    assert "pen/" not in text
    assert ">pot<" not in text


def test_added_photos_are_shown(update, report):
    z = features(LABELS)[16:18] + np.array([[2], [-2]])  # unlike all others
    edited = add_photos(update, "pencil", z, ["pencil/1.jpg", "pencil/2.jpg"], ["aa" * 16, "bb" * 16]).update
    added = {"aa" * 16: jpeg(100), "bb" * 16: jpeg(101)}
    assert rewrite(report, edited, added=added)
    assert added.items() <= read_embedded(report.read_text()).items()


def test_another_file_is_left_alone(update, report, tmp_path):
    """A page of somebody else, of an earlier version or of a test is neither used nor replaced."""
    before = report.read_bytes()
    other = tmp_path / "other.report.html"
    other.write_text("<h1>my notes</h1>")
    assert not rewrite(other, update)
    assert not rewrite(report, update, out=other)
    assert other.read_text() == "<h1>my notes</h1>"
    assert rewrite(report, forget_photos(update, [0]).update, out=tmp_path / "new.html")
    assert report.read_bytes() == before
    assert not contains(tmp_path / "new.html", 0)


def test_without_statistics_there_is_no_new_report(update, report):
    before = report.read_bytes()
    update.support = None
    assert not rewrite(report, update)
    assert report.read_bytes() == before


def test_a_page_without_statistics_has_no_digests(file):
    data = collect_update(file, PICTURES)
    assert "data-photos" in page(data)
    compact = page(replace(data, photos=replace(data.photos, contents=[])))
    assert "data-photos" not in compact
    assert not any(digest in compact for digest in DIGESTS)
