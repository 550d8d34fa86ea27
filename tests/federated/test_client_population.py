"""The simulated clients and the central evaluation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from filmtransfer.data.sample import sample_drawings
from filmtransfer.errors import InputError, UsageError
from filmtransfer.federated.client_population import ClientPopulation, SimulationConfig
from filmtransfer.federated.parameters import get_parameters, make_model
from filmtransfer.federated.simulation import simulate
from filmtransfer.heads import ProtoNets
from tests.federated.tiny import CONFIG, PLAN, make_server, population, read_images


def test_both_accuracies_are_the_papers():
    clients = population()
    result = clients.evaluate(clients.start)
    pool, test = clients.pool.features(), clients.test.features()
    everything = torch.cat([clients.rows(i) for i in range(len(clients))])
    means = ProtoNets().configure(pool[everything], clients.labels[everything])
    correct = means.logits(test).argmax(1) == clients.test_labels
    assert result["accuracy"] == pytest.approx(float(correct.float().mean()))
    for i, accuracy in enumerate(result["clients_accuracy"]):
        rows = clients.rows(i)
        own = clients.labels[rows]
        head = ProtoNets().configure(pool[rows], own)
        mask = torch.isin(clients.test_labels, own)
        predicted = head.classes[head.logits(test[mask]).argmax(1)]
        assert accuracy == pytest.approx(float((predicted == clients.test_labels[mask]).float().mean()))
    assert result["personalized"] == pytest.approx(np.mean(result["clients_accuracy"]))


@pytest.mark.slow
def test_bit_sends_all_weights_and_trains_one_head():
    plan = PLAN.override(head="linear", train="all", rounds=1, learning_rate=0.01)
    clients = ClientPopulation(CONFIG, plan, read_images)
    state = make_server(clients).run()
    sizes = make_model(plan, 12, backbone=clients.model.backbone)
    assert len(state.psi) == get_parameters(sizes).size > 3_000_000
    head = state.psi[-12 * 1281 :]
    assert np.abs(head).max() > 0, "it starts at zero"
    assert "personalized" not in state.rounds[-1]
    assert 0 <= state.rounds[-1]["accuracy"] <= 1


@pytest.mark.parametrize(
    ("config", "plan", "reason"),
    [
        (replace(CONFIG, clients=2, ways=6), PLAN, "A round of 3 clients is not possible with 2"),
        (replace(CONFIG, ways=1), PLAN, "do not cover all 12 classes"),
        (replace(CONFIG, partition="by lot"), PLAN, "The partition"),
        (replace(CONFIG, classes=99), PLAN, "has 12 classes"),
    ],
)
def test_invalid_configurations_are_refused(config, plan, reason):
    with pytest.raises(UsageError, match=reason):
        simulate(config, plan, read_images)


def test_dirichlet_clients_have_different_sizes():
    config = SimulationConfig(
        "sample", clients=4, partition="dirichlet", alpha=0.5, classes=3, test_images=30
    )
    result = simulate(config, replace(PLAN, rounds=1), read_images)
    assert result.state.done == 1
    assert len({len(own) for own in result.population.partition.clients}) > 1


def make_folders(root, spell=str):
    train, test = sample_drawings(3, 0)
    for name, own in (("anna", (0, 1)), ("bob", (1, 2))):
        for i, (image, label) in enumerate(zip(train.sources, train.labels, strict=True)):
            if label in own:
                spelling = spell(train.classes[label]) if name == "bob" else train.classes[label]
                folder = root / "train" / name / spelling
                folder.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(folder / f"{i}.png")
    for i in range(len(test.sources)):
        if test.labels[i] < 3 and i % 20 == 0:
            folder = root / "test" / test.classes[test.labels[i]]
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(test.sources[i]).save(folder / f"{i}.png")
    return root


def test_one_folder_per_client(tmp_path):
    root = make_folders(tmp_path)
    plan = replace(PLAN, rounds=1, clients_per_round=2)
    result = simulate(SimulationConfig("mine", str(root), partition="folders"), plan, read_images)
    assert result.state.rounds[0]["clients"] == ["anna", "bob"]
    assert len(result.population.classes) == 3


def test_class_names_that_differ_in_case_are_refused(tmp_path):
    root = make_folders(tmp_path, spell=str.upper)
    with pytest.raises(InputError, match=r"anna.*bob|bob.*anna"):
        simulate(
            SimulationConfig("mine", str(root), partition="folders"),
            replace(PLAN, clients_per_round=2),
            read_images,
        )
