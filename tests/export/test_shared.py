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
from filmtransfer.export.parity import (
    run_folded,
)
from filmtransfer.model import Body
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
    with pytest.raises(InputError, match="no user eve"):
        session.run(pixels[:1], ["eve"])
    with pytest.raises(UpdateFileError, match="not a user"):
        session.add("eve", folded_graph(users["ana"]))
