"""Likely mislabelled photos."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filmtransfer.report.parts import (
    label_issues,
)
from filmtransfer.report.pictures import EmbeddedPictures
from tests.report.small_report import LABELS, features, report_data


@pytest.mark.parametrize("head", ["lda", "qda", "protonets", "linear", "cosine"])
def test_a_swapped_label_is_the_first_label_issue(head):
    z = features(LABELS)
    labels = LABELS.copy()
    labels[5] = 2  # it is of class 0
    about = report_data(labels, z, head=head)
    assert about.predictions is not None
    found = label_issues.find(about, about.predictions)
    assert (found[0].photo, found[0].label, found[0].predicted) == (5, 2, 0)
    assert found[0].neighbours == found[0].compared == 5
    assert about.photos.labels[found[0].nearest_predicted] == 0
    assert about.photos.labels[found[0].nearest_labelled] == 2
    section = label_issues.section(about, EmbeddedPictures())
    assert section is not None
    assert "folder/005.jpg" in section.body
    assert "One label may be wrong" in section.advice[0]


def test_correct_labels_are_no_label_issues():
    about = report_data(LABELS, features(LABELS))
    assert about.predictions is not None
    assert label_issues.find(about, about.predictions) == []
    section = label_issues.section(about, EmbeddedPictures())
    assert section is not None
    assert section.advice == []


def test_a_hard_photo_with_neighbours_of_its_own_class_is_no_label_issue():
    z = features(LABELS)
    about = report_data(LABELS, z)
    assert about.predictions is not None
    logits = about.predictions.logits.copy()
    logits[3] = [-9.0, 9.0, -9.0, -9.0]  # the head is sure of class 1, its neighbours are of class 0
    changed = replace(about.predictions, logits=logits)
    assert label_issues.find(replace(about, predictions=changed), changed) == []


def test_one_label_issue_is_described_in_the_singular():
    data = report_data(LABELS, features(LABELS))
    assert "the label of this photo" in label_issues._intro(data, 1)
    assert "Built without it, " in label_issues._intro(data, 1)
    assert "the labels of these photos" in label_issues._intro(data, 2)


def test_copies_with_two_labels_are_not_called_correct():
    """They are shown as near-duplicates, so this section must not say that no label looks wrong."""
    z = features(LABELS)
    z[0] = z[8]
    data = report_data(LABELS, z)
    data.photos.digests[0] = data.photos.digests[8]
    assert label_issues.find(data, data.predictions)
    body = label_issues.section(data, EmbeddedPictures()).body
    assert "No other label looks wrong than those of the" in body
    assert 'href="#near-duplicates"' in body
