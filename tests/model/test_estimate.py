"""The stored estimate and its words."""

from __future__ import annotations

import pytest

from filmtransfer.errors import UpdateFileError
from filmtransfer.model.estimate import Estimate, describe_estimate, leave_one_out_basis, was_fine_tuned
from filmtransfer.training.assess.evaluation import wilson

STORED = {"accuracy": 0.9, "low": 0.5958, "high": 0.9821, "images": 10, "unseen": True}


def estimate(correct: int, images: int, unseen: bool = True, fine_tuned: bool = True) -> Estimate:
    return Estimate(correct / images, *wilson(correct, images), images, unseen, fine_tuned)


def test_what_is_stored_is_read_again():
    results = {"steps": 30, "share": 0.5, "estimate": STORED | {"log_loss": [0.5, 0.4]}}
    read = Estimate.read(results)
    assert read == Estimate(0.9, 0.5958, 0.9821, 10, unseen=True, fine_tuned=True)
    assert read.stored() == STORED
    assert read.to_dict() == STORED | {"percentage": read.percentage, "text": read.text}
    assert Estimate.read({"steps": 30}) is None


@pytest.mark.parametrize("images", [1, 3, 7, 4999])
def test_rounding_for_the_file_keeps_order_and_count(images):
    for correct in range(0, images + 1, max(1, images // 100)):
        stored = estimate(correct, images).stored()
        read = Estimate.read({"estimate": stored})
        assert read.low <= read.accuracy <= read.high
        assert round(read.accuracy * images) == correct


@pytest.mark.parametrize(
    "damage",
    [
        {"low": 0.95},
        {"high": 1.5},
        {"accuracy": "x"},
        {"accuracy": None},
        {"low": float("nan")},
        {"images": 0},
        {"images": 2.5},
        {"images": True},
    ],
)
def test_a_damaged_estimate_is_refused(damage):
    with pytest.raises(UpdateFileError, match="estimate is not valid"):
        Estimate.read({"estimate": STORED | damage})
    for stored in (5, [], {"accuracy": 0.5}):
        with pytest.raises(UpdateFileError, match="estimate is not valid"):
            Estimate.read({"estimate": stored})


@pytest.mark.parametrize(
    ("correct", "images", "written"),
    [
        (5, 8, "62%"),
        (0, 3, "0%"),
        (3, 3, "100%"),
        (198, 199, "99%"),
        (199, 200, "99.5%"),
        (1999, 2000, "99.9%"),
    ],
)
def test_the_percentage_has_the_digits_that_the_images_support(correct, images, written):
    assert estimate(correct, images).percentage == written
    assert f"photos {written} (95%" in estimate(correct, images).text


def test_sentences_say_what_was_measured_on():
    assert estimate(10, 10).text == (
        "Estimated accuracy on new photos 100% (95% interval 72% to 100%), from 10 photos that fine-tuning had not seen."
    )
    assert estimate(0, 3, fine_tuned=False).text == (
        "Estimated accuracy on new photos 0% (95% interval 0% to 57%), from 3 photos, each classified without itself."
    )
    assert estimate(1, 1, fine_tuned=False).text.endswith("from one photo, classified without itself.")
    assert estimate(5, 6, unseen=False).text == (
        "Leave-one-out accuracy 83% (95% interval 43% to 97%), from 6 photos that fine-tuning had seen: "
        "expect less on new photos."
    )
    assert "has not been estimated" in describe_estimate(None)
    assert describe_estimate(estimate(5, 6)) == estimate(5, 6).text


def test_the_basis_of_leave_one_out_predictions():
    assert leave_one_out_basis(1, 1, fine_tuned=False) == (
        "one of your photos by cross-validation: it was classified by a model built without it"
    )
    assert "40 of your photos that fine-tuning has not seen" in leave_one_out_basis(40, 40, True)
    assert "fine-tuning has seen 30 of them" in leave_one_out_basis(40, 10, True)
    assert "fine-tuning has seen them" in leave_one_out_basis(40, 0, True)
    assert "fine-tuning has seen it" in leave_one_out_basis(1, 0, True)


def test_a_change_that_was_not_kept_is_no_fine_tuning():
    assert was_fine_tuned({"steps": 5})
    assert not was_fine_tuned({"steps": 5, "share": 0.0})
    assert not was_fine_tuned({})
