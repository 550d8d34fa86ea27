"""The data of a report."""

from __future__ import annotations

from dataclasses import replace

from tests.report.small_report import LABELS, features, report_data


def test_the_basis_of_every_number():
    about = report_data(LABELS, features(LABELS))
    assert about.predictions is not None
    assert about.headline is not None
    assert about.basis(about.headline) == (
        "16 of your photos that fine-tuning has not seen, by cross-validation: each was classified by a model built without it"
    )
    assert "fine-tuning has seen 16 of them" in about.basis(about.predictions)
    assert "fine-tuning has seen them" in replace(about, unseen=False).basis(about.predictions)
    frozen = report_data(LABELS, features(LABELS), results={"steps": 0})
    assert frozen.predictions is not None
    assert frozen.basis(frozen.predictions) == (
        "32 of your photos by cross-validation: each was classified by a model built without it"
    )
    assert replace(about, kind="test").basis(about.predictions) == "the 32 photos of the test folder"
