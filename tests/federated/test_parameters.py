"""The parameter vector: the number of parameters that are sent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from filmtransfer.backbones import assemble, build, record_for
from filmtransfer.federated import messages
from filmtransfer.federated.compression import compress
from filmtransfer.federated.parameters import make_model, parameter_layout
from filmtransfer.federated.plan import named_plan


def random_backbone(name: str):
    record = record_for(name)
    return assemble(record, build(record), fold=False)


def test_the_number_of_parameters_is_the_papers():
    """11,648 parameters, five clients, both directions: 0.1 M per round and 7 M in 60; BiT 237 M and 14 B."""
    backbone = random_backbone("bit_m_r50x1")
    film = parameter_layout(
        make_model(replace(named_plan("cifar100"), backbone="bit_m_r50x1"), backbone=backbone)
    )
    assert film.length == 11_648
    assert film.length * 5 * 2 * 60 == 6_988_800
    complete = parameter_layout(
        make_model(replace(named_plan("bit"), backbone="bit_m_r50x1"), 100, backbone=backbone)
    )
    assert complete.length == 23_500_352 + 100 * 2048 + 100
    assert round(complete.length * 5 * 2 / 1e6) == 237
    message = messages.Message(
        messages.make_request(named_plan("cifar100"), 1, compress(np.zeros(film.length), "none", film.sizes)),
        dst_node_id=1, message_type=messages.TRAIN,
    )  # fmt: skip
    parameters, size = messages.message_cost(message)
    assert parameters == 11_648
    assert 4 * 11_648 < size < 4 * 11_648 + 3_000, "the plan and Flower's own records"
