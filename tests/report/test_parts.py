"""Each part finds what was put into the subject."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from filmtransfer.data import SkippedImage
from filmtransfer.report.drawing import COLOURS, SHAPES, mark
from filmtransfer.report.parts import (
    confusion,
    facts,
    film,
    mistakes,
    needs,
    plane,
    reliability,
    shots,
    strangers,
    summary,
    suspects,
    twins,
)
from filmtransfer.report.pictures import Sheet
from filmtransfer.report.subject import Judged, Strangers
from tests.report.made_up import features, photos, subject

LABELS = torch.arange(4).repeat_interleave(8)


def judged(probabilities: list[list[float]], truths: list[int], temperature: float = 1.0) -> Judged:
    return Judged(
        torch.arange(len(truths)), torch.tensor(truths), torch.tensor(probabilities).log(), temperature
    )


# Labels


@pytest.mark.parametrize("head", ["lda", "qda", "protonets", "linear"])
def test_a_swapped_label_is_the_first_suspect(head):
    z = features(LABELS)
    labels = LABELS.clone()
    labels[5] = 2  # it is of class 0
    about = subject(labels, z, head=head)
    assert about.judged is not None
    found = suspects.find(about, about.judged)
    assert (found[0].photo, found[0].label, found[0].looks) == (5, 2, 0)
    assert found[0].neighbours == found[0].asked == 5
    assert about.photos.labels[found[0].like] == 0
    assert about.photos.labels[found[0].unlike] == 2
    section = suspects.part(about, Sheet())
    assert section is not None
    assert "folder/005.jpg" in section.body
    assert "One label may be wrong" in section.advice[0]


def test_right_labels_are_not_suspected():
    about = subject(LABELS, features(LABELS))
    assert about.judged is not None
    assert suspects.find(about, about.judged) == []
    section = suspects.part(about, Sheet())
    assert section is not None
    assert section.advice == []


def test_a_hard_photo_without_such_neighbours_is_not_suspected():
    z = features(LABELS)
    about = subject(LABELS, z)
    assert about.judged is not None
    logits = about.judged.logits.clone()
    logits[3] = torch.tensor(
        [-9.0, 9.0, -9.0, -9.0]
    )  # the head is sure of class 1, its neighbours are of class 0
    strange = replace(about.judged, logits=logits)
    assert suspects.find(replace(about, judged=strange), strange) == []


# Twins


def test_twins_are_found_and_the_urgent_ones_come_first():
    z = features(LABELS)
    z[9] = z[8] + 0.02 * torch.randn(
        16, generator=torch.Generator().manual_seed(1)
    )  # nearly the same, one label
    z[16] = z[0] * 1.5  # the same direction, two labels
    digests = [str(i) for i in range(32)]
    digests[31] = digests[30]  # the same pixels
    found = twins.find(z, LABELS, digests)
    assert [(t.first, t.second) for t in found] == [(0, 16), (30, 31), (8, 9)]
    assert [t.across for t in found] == [True, False, False]
    assert [t.same for t in found] == [True, True, False]


def test_no_twins_among_different_photos():
    assert twins.find(features(LABELS), LABELS, [str(i) for i in range(32)]) == []
    assert twins.find(features(LABELS)[:1], LABELS[:1], [""]) == []
    assert twins.find(features(LABELS)[:2], LABELS[:2], ["", ""]) == []


def test_a_class_of_photos_that_are_all_alike_has_no_twins():
    spread = torch.where(LABELS == 3, 0.02, 0.35)[:, None]
    z = features(LABELS, 0.0) + spread * torch.randn(32, 16, generator=torch.Generator().manual_seed(2))
    assert twins.find(z, LABELS, [str(i) for i in range(32)]) == []


def test_test_photos_that_were_learned_from_are_named():
    z = features(LABELS)
    about = subject(LABELS, z, kind="test")
    fresh = features(LABELS, seed=7)
    fresh[4] = z[11]
    assert twins.leaked(z, fresh) == [(4, 11)]
    section = twins.part(replace(about, photos=photos(LABELS, fresh)), Sheet())
    assert section is not None
    assert "also among the training photos" in section.body
    assert "also learned from" in section.advice[0]


# Classes


def test_the_class_that_is_not_recognised_needs_photos():
    sure, lost = [0.9, 0.05, 0.05], [0.1, 0.2, 0.7]
    found = needs.find(judged([sure, sure, lost, lost, [0.05, 0.05, 0.9]], [0, 0, 1, 1, 2]), [4, 2, 1, 1])
    assert [n.label for n in found] == [3, 1, 2, 0], "what cannot be judged, then the worst"
    assert (found[1].right, found[1].judged, found[1].taken_for, found[1].taken) == (0, 2, 2, 2)
    assert [n.wanting for n in found] == [True, True, False, False]
    assert needs.find(judged([sure, lost], [0, 1]), [1, 1, 1], [1])[0].judged == 0, "without a doubted photo"


def test_needs_are_told_in_words():
    labels = torch.cat([LABELS, torch.tensor([4])])
    section = needs.part(subject(labels, features(labels)))
    assert section is not None
    assert "has one photo and cannot be judged" in section.body
    assert "Photograph more of" in section.advice[0]


def test_confusion_counts_every_photo_once():
    about = subject(LABELS, features(LABELS, 1.2))
    assert about.judged is not None
    matrix = about.judged.evaluation.confusion
    assert int(matrix.sum()) == 32
    wrong = int((~about.judged.right).sum())
    assert 0 < wrong == sum(len(rows) for _, _, rows in confusion.pairs(about.judged))
    section = confusion.part(about, Sheet())
    assert section is not None
    assert section.body.count('scope="row"') == 4


def test_a_large_confusion_table_keeps_the_mistaken_classes():
    matrix = torch.eye(40, dtype=torch.long) * 5
    matrix[30, 7] = 2
    chosen = confusion.chosen(matrix, 5)
    assert len(chosen) == 5
    assert {7, 30} <= set(chosen)
    assert chosen == sorted(chosen)


def test_the_typical_photo_points_as_the_mean():
    z = torch.tensor([[1.0, 0.0], [1.0, 1.0], [0.1, 1.0], [-1.0, 0.0]])
    assert confusion.typical(photos(torch.tensor([0, 0, 0, 1]), z, False), 3) == [1, 3, None]


def test_worst_and_most_doubtful_come_first():
    seen = judged([[0.9, 0.1], [0.6, 0.4], [0.01, 0.99], [0.45, 0.55], [0.52, 0.48]], [1, 1, 1, 1, 0])
    assert mistakes.worst(seen).tolist() == [0, 1]
    assert mistakes.doubtful(seen).tolist() == [4, 3, 2]


# Figures


@pytest.mark.parametrize("head", ["lda", "protonets"])
def test_the_curve_rises_with_shots(head):
    labels = torch.arange(5).repeat_interleave(10)
    about = subject(labels, features(labels, 1.6), head=head)
    tested = torch.ones(50, dtype=torch.bool)
    found = shots.curve(about.head, about.photos.features, labels, tested, seed=0)
    assert found is not None
    assert found.shots[0] == 1
    assert found.images == 50
    assert found.mean[-1] > found.mean[0] + 0.1
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.mean, found.high, strict=True))
    assert found == shots.curve(about.head, about.photos.features, labels, tested, seed=0), (
        "one seed, one curve"
    )
    assert "still rises" in shots._verdict(
        replace(found, mean=[0.4 + 0.05 * i for i in range(len(found.shots))])
    )


def test_the_curve_tries_photos_on_heads_built_without_them():
    for seed in range(3):
        order = torch.Generator().manual_seed(seed)
        able = torch.zeros(32, dtype=torch.bool)
        able[::3] = True
        trials = shots._trials(LABELS, able, 4, order)
        tried = torch.cat([t.tried for t in trials]).sort().values
        assert tried.tolist() == torch.nonzero(able).flatten().tolist(), "each once"
        for trial in trials:
            assert not set(trial.pool.tolist()) & set(trial.tried.tolist())
            assert LABELS[trial.pool].unique().tolist() == [0, 1, 2, 3]


def test_the_curve_of_a_test_ends_at_its_accuracy():
    z, fresh = features(LABELS, 1.0), features(LABELS, 1.0, seed=0)
    about = subject(LABELS, z)
    found = shots.test_curve(about.head, z, LABELS, fresh + 0.3, LABELS, seed=0)
    assert found is not None
    right = float((about.head.logits(fresh + 0.3).argmax(1) == LABELS).double().mean())
    assert found.mean[-1] == found.low[-1] == found.high[-1] == pytest.approx(right)


def test_shots_are_the_first_of_each_class():
    labels = torch.tensor([0, 1, 1, 0, 1])
    assert shots.first_of_each(labels, torch.tensor([4, 3, 2, 1, 0]), 2).tolist() == [4, 3, 2, 0]


def test_reliability_counts_every_photo():
    about = subject(LABELS, features(LABELS, 1.0), temperature=2.0)
    assert about.counted is not None
    for chances in (about.counted.probabilities, about.counted.untempered):
        for number in (5, 10):
            found = reliability.bins(chances, about.counted.truths, number)
            assert sum(b.total for b in found if b) == len(about.counted)
            right = int((chances.argmax(1) == about.counted.truths).sum())
            assert sum(b.right for b in found if b) == right
    section = reliability.part(about)
    assert section is not None
    assert "less sure by a temperature of 2.00" in section.body
    assert "hollow" in section.body


def test_the_map_keeps_far_classes_apart():
    z = features(LABELS, 0.05)
    points = plane.axes(z, LABELS)(z)
    means = torch.stack([points[c == LABELS].mean(0) for c in range(4)])
    within = max(float((points[c == LABELS] - means[c]).norm(dim=1).max()) for c in range(4))
    assert float(torch.pdist(means).min()) > within
    two = LABELS < 2
    axes = plane.axes(z[two], LABELS[two])
    assert torch.allclose(axes.directions @ axes.directions.T, torch.eye(2, dtype=torch.float64), atol=1e-9)
    assert axes.share == pytest.approx(1)


def test_pictures_on_the_map_do_not_cover_each_other():
    points = torch.rand(200, 2, generator=torch.Generator().manual_seed(0)) * 400
    chosen = plane.spread(points, 50, list(range(200)))
    apart = (points[chosen][:, None] - points[chosen][None]).abs().max(2).values
    apart.fill_diagonal_(1e9)
    assert len(chosen) > 10
    assert float(apart.min()) >= 50


def test_every_class_has_a_sign_of_its_own():
    assert len({mark(k, 0, 0) for k in range(COLOURS * SHAPES)}) == COLOURS * SHAPES


def test_film_is_drawn_layer_by_layer():
    about = subject(LABELS, features(LABELS))
    body = film.part(about).body
    assert body.count('class="box') == 2 * 3
    assert "36 dials" in body


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"results": {"steps": 0}, "body": {}}, "Nothing: the backbone is as it came"),
        ({"results": {"steps": 9, "share": 0.0}}, "held-out photos spoke against it"),
        ({"settings": {"adapter": "lora"}, "body": {"a": torch.ones(7)}}, "7 numbers of lora"),
        ({"settings": {"train": "all"}, "body": {"a": torch.ones(7)}}, "all 7 numbers of the backbone"),
    ],
)
def test_what_is_not_film_is_said_in_words(change, words):
    assert words in film.part(subject(LABELS, features(LABELS), **change)).body


def test_strangers_are_counted_on_both_sides_of_the_threshold():
    found = Strangers(
        photos(torch.zeros(5, dtype=torch.long), torch.randn(5, 4)),
        torch.tensor([0.1, 0.2, 0.3, 0.8, 0.4]),
        torch.tensor([0.9, 0.85, 0.45]),
        torch.tensor([0.7, 0.8, 0.9]),
        0.5,
        0.05,
    )
    assert (strangers.caught(found), strangers.alarms(found)) == (4, 1)
    assert int(strangers.histogram(found.scores, 0.1, 0.9).sum()) == 5
    section = strangers.part(
        replace(subject(LABELS, features(LABELS), kind="test"), strangers=found), Sheet()
    )
    assert section is not None
    assert "4 of 5 strangers" in section.body
    assert "1 of 3 test photos" in section.body
    assert "folder/003.jpg" in section.body
    assert "One stranger was taken" in section.advice[0]


# Words


def test_every_number_says_what_it_was_measured_on():
    about = subject(LABELS, features(LABELS))
    assert about.judged is not None
    assert about.counted is not None
    assert about.basis(about.counted) == (
        "16 photos of yours that fine-tuning had not seen, each judged by a classifier built without it"
    )
    assert "fine-tuning had seen 16 of them" in about.basis(about.judged)
    assert "fine-tuning had seen them" in replace(about, unseen=False).basis(about.judged)
    frozen = subject(LABELS, features(LABELS), results={"steps": 0})
    assert frozen.judged is not None
    assert frozen.basis(frozen.judged) == "32 photos of yours, each judged by a classifier built without it"
    assert replace(about, kind="test").basis(about.judged) == "the 32 photos of the test folder"


def test_the_summary_says_accuracy_and_interval():
    about = subject(LABELS, features(LABELS, 1.0))
    assert about.counted is not None
    result = about.counted.evaluation
    text = summary.part(about, [])
    assert f"about {round(100 * result.accuracy)} rightly" in text
    assert f"{100 * result.low:.0f}% to {100 * result.high:.0f}%" in text
    assert "Guessing would get 25%" in text


def test_facts_list_what_was_left_out():
    about = subject(LABELS, features(LABELS))
    body = facts.part(
        replace(about, skipped=[SkippedImage(f"a/{i}.jpg", "it is broken") for i in range(25)])
    ).body
    assert "25 files could not be used" in body
    assert "a/19.jpg: it is broken" in body
    assert "and 5 more" in body
