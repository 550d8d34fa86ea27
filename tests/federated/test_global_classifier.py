"""The global classifier from summed statistics equals that from pooled features."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from filmtransfer.estimator import FewShotClassifier
from filmtransfer.federated.global_classifier import global_update
from filmtransfer.federated.parameters import set_parameters
from tests.federated.tiny import PLAN, make_server, population


@pytest.mark.slow
@pytest.mark.parametrize("head", ["protonets", "lda", "cosine"])
@pytest.mark.parametrize("secure", [False, True])
def test_the_global_head_is_the_pooled_one(head, secure, tmp_path):
    clients = population(replace(PLAN, head=head, secure=secure))
    server = make_server(clients)
    psi = server.run().psi
    summed = server.collect_statistics(psi)
    classes = summed.classes
    update = global_update(server.model, clients.plan, psi, summed.statistics, classes)

    set_parameters(clients.model, psi)
    everything = torch.cat([clients.rows(i) for i in range(len(clients))])
    features = clients.pool.features()[everything]
    pooled = clients.model.head.configure(features, clients.labels[everything])
    test = clients.test.features()
    expected = pooled.logits(test)
    path = tmp_path / "global.safetensors"
    update.save(path)
    loaded = FewShotClassifier.load(path, backbone=clients.model.backbone)
    assert loaded.update_.classes == classes == clients.classes
    logits = loaded.model_.head.logits(test)
    # Distances are large and only their differences count.
    assert (logits.softmax(1) - expected.softmax(1)).abs().max() < 1e-4
    assert (logits - expected).abs().max() < 2e-5 * expected.abs().max()
