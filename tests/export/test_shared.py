"""A shared backbone with several users agrees with their folded graphs."""

from __future__ import annotations

import numpy as np
import pytest

from filmtransfer import InputError, UpdateFileError
from filmtransfer.export import (
    SharedSession,
    folded_graph,
    probe_images,
    shared_backbone,
    user_file,
)
from filmtransfer.export.graph import read_metadata
from filmtransfer.export.parity import (
    run_folded,
)
from filmtransfer.heads import HEADS
from filmtransfer.model import Body
from filmtransfer.runtime import open_session
from tests.export.small_classifiers import SIDE, classifier, lite0


@pytest.mark.slow
def test_two_users_in_one_batch_agree_with_their_folded_graphs():
    users = {
        "ana": classifier(lite0(), "lda"),
        "ben": classifier(lite0(), "qda", seed=7, body=Body(film_from=4)),
    }
    backbone = shared_backbone(users["ana"])
    assert backbone == shared_backbone(users["ben"])  # nothing of a user is in it
    session = SharedSession(backbone)
    for name, clf in users.items():
        content = user_file(clf)
        assert len(content) < 400_000
        session.add(name, content)
    pixels, order = probe_images(SIDE, 6).numpy(), ["ana", "ben", "ben", "ana", "ana", "ben"]
    together = session.run(pixels, order)
    for name, clf in users.items():
        alone = run_folded(folded_graph(clf))(pixels)
        for i in [i for i, user in enumerate(order) if user == name]:
            assert np.abs(together[i]["probabilities"] - alone["probabilities"][i]).max() < 1e-5
            assert together[i]["rejected"] == alone["rejected"][i]
    with pytest.raises(InputError, match="no user eve"):
        session.run(pixels[:1], ["eve"])
    with pytest.raises(UpdateFileError, match="not a user"):
        session.add("eve", folded_graph(users["ana"]))


@pytest.mark.parametrize("head", HEADS)
def test_a_users_file_rejects_as_the_classifier(head):
    clf = classifier(lite0(), head)
    head_session = open_session(user_file(clf, 0.49), 1)
    features = clf.model_.extract(probe_images(SIDE, 16).numpy())
    scores, rejected = head_session.run(["ood_score", "rejected"], {"features": features})
    predictions = clf.predictor_.predict(features)
    assert np.abs(scores - clf.predictor_.ood_scores(predictions)).max() < 1e-5
    assert (rejected == clf.predictor_.rejected(predictions, 0.49)).all()
    assert 0 < rejected.sum() < len(rejected)


def test_users_with_and_without_a_detector_share_a_batch():
    """A file without a detector is what earlier versions exported."""
    clf, earlier = classifier(lite0()), classifier(lite0(), rejects=False)
    session = SharedSession(shared_backbone(clf))
    session.add("ana", user_file(clf))
    session.add("ben", user_file(earlier))
    pixels = probe_images(SIDE, 2).numpy()
    with_detector, without = session.run(pixels, ["ana", "ben"])
    assert with_detector.keys() == {"probabilities", "logits", "features", "ood_score", "rejected"}
    assert without.keys() == {"probabilities", "logits", "features"}
    assert read_metadata(user_file(clf, 0.01))["rejection"]["false_alarm"] == 0.01
    assert "rejection" not in read_metadata(shared_backbone(clf))  # it belongs to no user
