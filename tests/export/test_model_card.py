"""The model card."""

from __future__ import annotations

import re
from dataclasses import replace

from filmtransfer.export.model_card import default_title, model_card
from filmtransfer.export.rejection import Rejection
from tests.export.small_classifiers import classifier, lite0


def test_the_model_card_contains_what_is_known():
    clf = classifier(lite0())
    update, rejection = clf.update_, Rejection.of(clf.predictor_)
    assert "has not been estimated" in model_card(update, "hub", rejection)
    assert "pixels, the complete image scaled to a square, " in model_card(update, "hub", rejection)
    update.results = {
        "estimate": {"accuracy": 0.875, "low": 0.5291, "high": 0.9776, "images": 8, "unseen": True},
        "steps": 30,
    }
    text = model_card(update, "web", rejection, notes=["a note."])
    assert "88% (95% interval 52% to 98%), from 8 photos that fine-tuning had not seen." in text
    assert "value: 0.8750" in text
    assert "- a note." in text
    update.results = {}
    assert default_title(["a|b", "c"]) == "a|b or c?"
    assert default_title(list(range(9))) == "Which of 9 is it?"


def test_the_limits_say_what_becomes_of_other_photos():
    clf, without = classifier(lite0()), classifier(lite0(), rejects=False)
    web = model_card(clf.update_, "web", Rejection.of(clf.predictor_))
    assert "is shown as “None of these”" in web
    assert "about 5% of the photos of these classes" in web
    hub = model_card(clf.update_, "hub", Rejection.of(clf.predictor_, 0.01))
    assert 'clf.predict(["photo.jpg"], reject=True, false_alarm=0.01)' in hub
    assert "fit predict update.safetensors photo.jpg --reject --false-alarm 0.01`" in hub
    assert "about 1% of the photos of these classes" in hub
    assert "assigned to one of them" not in web
    cannot = model_card(without.update_, "hub", Rejection.of(without.predictor_))
    assert "It cannot reject photos: one of anything else is assigned to one of them." in cannot
    assert "reject=True" not in cannot


def test_no_field_of_a_file_is_read_as_markup():
    hostile = "a|b <script>[x](https://evil.example) `c` # \x1b[2J \udcff\n---\nlicense: x"
    clf = classifier(lite0())
    update = replace(
        clf.update_,
        classes=[hostile, *range(len(clf.update_.classes) - 1)],
        backbone_digest="`" + hostile,
        versions={hostile: hostile},
        settings=clf.update_.settings | {"prior": [0.5] * len(clf.update_.classes)},
    )
    text = model_card(update, "hub", Rejection.of(clf.predictor_))
    header, body = text.removeprefix("---\n").split("\n---\n", 1)
    assert "license: x" not in header
    assert "<script>" not in body.replace("\\<script\\>", "")
    for character in "\x1b\udcff":
        assert character not in text
    for line in body.splitlines():
        assert not line.startswith(("---", "license"))
        cells = re.sub(r"\\.", "", line)
        assert "](" not in cells
        assert not line.startswith("|") or cells.count("|") == 3
    text.encode()
