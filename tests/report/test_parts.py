"""Each section finds what was put into the data."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from filmtransfer.data import SkippedImage
from filmtransfer.heads import ProtoNets
from filmtransfer.model import Predictor
from filmtransfer.report.drawing import COLOURS, SHAPES, marker
from filmtransfer.report.parts import (
    confusion,
    facts,
    film,
    label_issues,
    learning_curve,
    mistakes,
    near_duplicates,
    out_of_distribution,
    projection,
    reliability,
    summary,
    weak_classes,
)
from filmtransfer.report.pictures import EmbeddedPictures
from filmtransfer.report.report_data import OODPhotos, PhotoPredictions
from tests.report.small_report import features, photos, report_data

LABELS = torch.arange(4).repeat_interleave(8)


def predictions(probabilities: list[list[float]], labels: list[int]) -> PhotoPredictions:
    classes = len(probabilities[0])
    predictor = Predictor(ProtoNets(), (), list(range(classes)), torch.zeros(classes))
    logits = torch.tensor(probabilities).log()
    return PhotoPredictions(torch.arange(len(labels)), torch.tensor(labels), logits, predictor)


# Labels


@pytest.mark.parametrize("head", ["lda", "qda", "protonets", "linear"])
def test_a_swapped_label_is_the_first_label_issue(head):
    z = features(LABELS)
    labels = LABELS.clone()
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
    logits = about.predictions.logits.clone()
    logits[3] = torch.tensor(
        [-9.0, 9.0, -9.0, -9.0]
    )  # the head is sure of class 1, its neighbours are of class 0
    changed = replace(about.predictions, logits=logits)
    assert label_issues.find(replace(about, predictions=changed), changed) == []


# Near-duplicates


def test_near_duplicates_with_different_labels_come_first():
    z = features(LABELS)
    z[9] = z[8] + 0.02 * torch.randn(
        16, generator=torch.Generator().manual_seed(1)
    )  # nearly the same, one label
    z[16] = z[0] * 1.5  # the same direction, two labels
    digests = [str(i) for i in range(32)]
    digests[31] = digests[30]  # the same pixels
    found = near_duplicates.find(z, LABELS, digests)
    assert [(t.first, t.second) for t in found] == [(0, 16), (30, 31), (8, 9)]
    assert [t.labels_differ for t in found] == [True, False, False]
    assert [t.identical for t in found] == [True, True, False]


def test_different_photos_are_no_near_duplicates():
    assert near_duplicates.find(features(LABELS), LABELS, [str(i) for i in range(32)]) == []
    assert near_duplicates.find(features(LABELS)[:1], LABELS[:1], [""]) == []
    assert near_duplicates.find(features(LABELS)[:2], LABELS[:2], ["", ""]) == []


def test_similar_photos_of_one_class_are_no_near_duplicates():
    spread = torch.where(LABELS == 3, 0.02, 0.35)[:, None]
    z = features(LABELS, 0.0) + spread * torch.randn(32, 16, generator=torch.Generator().manual_seed(2))
    assert near_duplicates.find(z, LABELS, [str(i) for i in range(32)]) == []


def test_test_photos_in_the_training_set_are_named():
    z = features(LABELS)
    about = report_data(LABELS, z, kind="test")
    fresh = features(LABELS, seed=7)
    fresh[4] = z[11]
    assert near_duplicates.leaked(z, fresh) == [(4, 11)]
    section = near_duplicates.section(replace(about, photos=photos(LABELS, fresh)), EmbeddedPictures())
    assert section is not None
    assert "also in the training set" in section.body
    assert "also in the training set" in section.advice[0]


# Classes


def test_the_weakest_class_comes_first():
    sure, lost = [0.9, 0.05, 0.05], [0.1, 0.2, 0.7]
    found = weak_classes.class_results(
        predictions([sure, sure, lost, lost, [0.05, 0.05, 0.9]], [0, 0, 1, 1, 2]), [4, 2, 1, 1]
    )
    assert [n.label for n in found] == [3, 1, 2, 0], "what cannot be assessed, then the weakest"
    assert (found[1].correct, found[1].assessed, found[1].confused_with, found[1].mistakes) == (0, 2, 2, 2)
    assert [n.weak for n in found] == [True, True, False, False]
    assert weak_classes.class_results(predictions([sure, lost], [0, 1]), [1, 1, 1], [1])[0].assessed == 0, (
        "without a mislabelled photo"
    )


def test_weak_classes_are_described():
    labels = torch.cat([LABELS, torch.tensor([4])])
    section = weak_classes.section(report_data(labels, features(labels)))
    assert section is not None
    assert "has one photo and cannot be assessed" in section.body
    assert "Photograph more of" in section.advice[0]


def test_confusion_counts_every_photo_once():
    about = report_data(LABELS, features(LABELS, 1.2))
    assert about.predictions is not None
    matrix = about.predictions.evaluation.confusion
    assert int(matrix.sum()) == 32
    wrong = int((~about.predictions.correct).sum())
    assert 0 < wrong == sum(len(rows) for _, _, rows in confusion.confused_pairs(about.predictions))
    section = confusion.section(about, EmbeddedPictures())
    assert section is not None
    assert section.body.count('scope="row"') == 4


def test_a_large_confusion_matrix_keeps_the_confused_classes():
    matrix = torch.eye(40, dtype=torch.long) * 5
    matrix[30, 7] = 2
    chosen = confusion.shown_classes(matrix, 5)
    assert len(chosen) == 5
    assert {7, 30} <= set(chosen)
    assert chosen == sorted(chosen)


def test_the_typical_photo_has_the_direction_of_the_mean():
    z = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.1, 1.0], [-1.0, 0.0]])
    assert confusion.typical_photos(photos(torch.tensor([0, 0, 0, 1]), z, False), 3) == [1, 3, None]


def test_confident_mistakes_and_small_margins_come_first():
    some = predictions([[0.9, 0.1], [0.6, 0.4], [0.01, 0.99], [0.45, 0.55], [0.52, 0.48]], [1, 1, 1, 1, 0])
    assert mistakes.worst_mistakes(some).tolist() == [0, 1]
    assert mistakes.lowest_margins(some).tolist() == [4, 3, 2]


# Figures


@pytest.mark.parametrize("head", ["lda", "protonets"])
def test_the_curve_rises_with_shots(head):
    labels = torch.arange(5).repeat_interleave(10)
    about = report_data(labels, features(labels, 1.6), head=head)
    tested = torch.ones(50, dtype=torch.bool)
    found = learning_curve.cross_validated_curve(about.head, about.photos.features, labels, tested, seed=0)
    assert found is not None
    assert found.shots[0] == 1
    assert found.images == 50
    assert found.mean[-1] > found.mean[0] + 0.1
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.mean, found.high, strict=True))
    assert found == learning_curve.cross_validated_curve(
        about.head, about.photos.features, labels, tested, seed=0
    ), "one seed, one curve"
    assert "still rises" in learning_curve._verdict(
        replace(found, mean=[0.4 + 0.05 * i for i in range(len(found.shots))])
    )


def test_the_curve_tests_photos_on_heads_built_without_them():
    for seed in range(3):
        order = torch.Generator().manual_seed(seed)
        held_out = torch.zeros(32, dtype=torch.bool)
        held_out[::3] = True
        splits = learning_curve._folds(LABELS, held_out, 4, order)
        tested = torch.cat([split.test for split in splits]).sort().values
        assert tested.tolist() == torch.nonzero(held_out).flatten().tolist(), "each once"
        for split in splits:
            assert not set(split.pool.tolist()) & set(split.test.tolist())
            assert LABELS[split.pool].unique().tolist() == [0, 1, 2, 3]


def test_the_curve_of_a_test_ends_at_its_accuracy():
    z, fresh = features(LABELS, 1.0), features(LABELS, 1.0, seed=0)
    about = report_data(LABELS, z)
    found = learning_curve.tested_curve(about.head, z, LABELS, fresh + 0.3, LABELS, seed=0)
    assert found is not None
    right = float((about.head.logits(fresh + 0.3).argmax(1) == LABELS).double().mean())
    assert found.mean[-1] == found.low[-1] == found.high[-1] == pytest.approx(right)


def test_shots_are_the_first_of_each_class():
    labels = torch.tensor([0, 1, 1, 0, 1])
    assert learning_curve.first_of_each(labels, torch.tensor([4, 3, 2, 1, 0]), 2).tolist() == [4, 3, 2, 0]


def test_reliability_counts_every_photo():
    about = report_data(LABELS, features(LABELS, 1.0), temperature=2.0)
    assert about.headline is not None
    for probabilities in (about.headline.probabilities, about.headline.uncalibrated):
        for number in (5, 10):
            found = reliability.confidence_bins(probabilities, about.headline.labels, number)
            assert sum(b.total for b in found if b) == len(about.headline)
            correct = int((probabilities.argmax(1) == about.headline.labels).sum())
            assert sum(b.correct for b in found if b) == correct
    section = reliability.section(about)
    assert section is not None
    assert "less confident (T = 2.00" in section.body
    assert "hollow" in section.body


def test_the_map_keeps_far_classes_apart():
    z = features(LABELS, 0.05)
    points = projection.fit_axes(z, LABELS)(z)
    means = torch.stack([points[c == LABELS].mean(0) for c in range(4)])
    within = max(float((points[c == LABELS] - means[c]).norm(dim=1).max()) for c in range(4))
    assert float(torch.pdist(means).min()) > within
    two = LABELS < 2
    axes = projection.fit_axes(z[two], LABELS[two])
    assert torch.allclose(axes.directions @ axes.directions.T, torch.eye(2, dtype=torch.float64), atol=1e-9)
    assert axes.share == pytest.approx(1)


def test_pictures_on_the_map_do_not_cover_each_other():
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 400
    chosen = projection.spread(points, 50, list(range(200)))
    apart = (points[chosen][:, None] - points[chosen][None]).abs().max(2).values
    apart.fill_diagonal_(1e9)
    assert len(chosen) > 10
    assert float(apart.min()) >= 50


def test_every_class_has_its_own_marker():
    assert len({marker(k, 0, 0) for k in range(COLOURS * SHAPES)}) == COLOURS * SHAPES


def test_film_is_drawn_layer_by_layer():
    about = report_data(LABELS, features(LABELS))
    body = film.section(about).body
    assert body.count('class="box') == 2 * 3
    assert "36 FiLM parameters" in body


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"results": {"steps": 0}, "parameters": {}}, "Nothing: the backbone is unchanged"),
        ({"results": {"steps": 9, "share": 0.0}}, "it made predictions for held-out photos worse"),
        ({"settings": {"adapter": "lora"}, "parameters": {"a": torch.ones(7)}}, "7 parameters of lora"),
        (
            {"settings": {"train": "all"}, "parameters": {"a": torch.ones(7)}},
            "all 7 parameters of the backbone",
        ),
    ],
)
def test_without_film_a_sentence_says_why(change, expected):
    assert expected in film.section(report_data(LABELS, features(LABELS), **change)).body


def test_out_of_distribution_photos_are_counted_on_both_sides_of_the_threshold():
    ood = OODPhotos(
        photos(torch.zeros(5, dtype=torch.long), torch.randn(5, 4)),
        torch.tensor([0.1, 0.2, 0.3, 0.8, 0.4]),
        torch.tensor([0.9, 0.85, 0.45]),
        0.5,
        0.05,
    )
    assert (out_of_distribution.rejected(ood), out_of_distribution.false_alarms(ood)) == (4, 1)
    assert int(out_of_distribution.histogram(ood.scores, 0.1, 0.9).sum()) == 5
    section = out_of_distribution.section(
        replace(report_data(LABELS, features(LABELS), kind="test"), ood=ood), EmbeddedPictures()
    )
    assert section is not None
    assert "4 of 5 photos of something else" in section.body
    assert "1 of 3 test photos" in section.body
    assert "folder/003.jpg" in section.body
    assert "One photo of something else was not rejected" in section.advice[0]


# Texts


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


def test_the_summary_contains_accuracy_and_interval():
    about = report_data(LABELS, features(LABELS, 1.0))
    assert about.headline is not None
    result = about.headline.evaluation
    text = summary.summary(about, [])
    assert f"about {round(100 * result.accuracy)} of 100 new photos correctly" in text
    assert f"{100 * result.low:.0f}% to {100 * result.high:.0f}%" in text
    assert "Guessing would get 25%" in text


def test_facts_list_skipped_files():
    about = report_data(LABELS, features(LABELS))
    body = facts.section(
        replace(about, skipped=[SkippedImage(f"a/{i}.jpg", "it is broken") for i in range(25)])
    ).body
    assert "25 files could not be used" in body
    assert "a/19.jpg: it is broken" in body
    assert "and 5 more" in body
