"""The model card."""

from __future__ import annotations

from filmtransfer.export.model_card import default_title, model_card
from tests.export.small_classifiers import classifier, lite0


def test_the_model_card_contains_what_is_known():
    update = classifier(lite0()).update_
    assert "has not been measured" in model_card(update, "hub")
    assert "pixels, the complete image scaled to a square, " in model_card(update, "hub")
    update.results = {"estimate": {"accuracy": 0.875}}
    text = model_card(update, "web", notes=["a note."])
    assert "87.5% accuracy, estimated" in text
    assert "value: 0.8750" in text
    assert "- a note." in text
    update.results = {}
    assert default_title(["a|b", "c"]) == "a|b or c?"
    assert default_title(list(range(9))) == "Which of 9 is it?"
