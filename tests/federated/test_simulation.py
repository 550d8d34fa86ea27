"""The population seen from above, the bounds, BiT, and Flower's own engine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from filmtransfer.data.sample import sample_drawings
from filmtransfer.errors import InputError, UsageError
from filmtransfer.federated.bounds import lower, upper
from filmtransfer.federated.client_population import ClientPopulation, SimulationConfig
from filmtransfer.federated.parameters import make_model, read, write
from filmtransfer.federated.simulation import simulate
from filmtransfer.heads import ProtoNets
from tests.federated.tiny import PLAN, SCENE, population, read_images, server


def test_both_settings_are_the_papers():
    found = population()
    result = found.evaluate(found.start)
    pool, tried = found.pool.features(), found.test.features()
    everything = torch.cat([found.rows(i) for i in range(len(found))])
    means = ProtoNets().configure(pool[everything], found.labels[everything])
    right = means.logits(tried).argmax(1) == found.test_labels
    assert result["accuracy"] == pytest.approx(float(right.float().mean()))
    for i, accuracy in enumerate(result["clients_accuracy"]):
        rows = found.rows(i)
        own = found.labels[rows]
        head = ProtoNets().configure(pool[rows], own)
        asked = torch.isin(found.test_labels, own)
        predicted = head.classes[head.logits(tried[asked]).argmax(1)]
        assert accuracy == pytest.approx(float((predicted == found.test_labels[asked]).float().mean()))
    assert result["personalized"] == pytest.approx(np.mean(result["clients_accuracy"]))


def test_the_lower_bound_is_each_client_alone():
    found = population()
    result = lower(found, steps=2)
    total = np.zeros(len(found.start))
    for i in range(len(found)):
        write(found.model, found.start)
        client = found.client(i)
        client.train(found.plan, 1)
        own = found.evaluate(read(found.model))
        assert result["clients_accuracy"][i] == pytest.approx(own["clients_accuracy"][i])
        total += read(found.model) / len(found)
    assert result["accuracy"] == found.evaluate(total.astype(np.float32))["accuracy"]


def test_the_upper_bound_has_all_images():
    found = population()
    result = upper(found, steps=2)
    assert np.abs(read(found.model) - found.start).max() > 1e-3
    assert len(result["clients_accuracy"]) == len(found)
    assert result["personalized"] >= result["accuracy"], "fewer classes to choose from"


def test_without_steps_the_bounds_are_the_frozen_model():
    found = population()
    frozen = found.evaluate(found.start)
    assert lower(found, steps=0)["personalized"] == frozen["personalized"]
    assert upper(found, steps=0)["accuracy"] == frozen["accuracy"]


def test_bit_sends_everything_and_learns_one_head():
    plan = PLAN.with_choices(head="linear", train="all", rounds=1, learning_rate=0.01)
    found = ClientPopulation(SCENE, plan, read_images)
    state = server(found).run()
    sizes = make_model(plan, 12, backbone=found.model.backbone)
    assert len(state.psi) == read(sizes).size > 3_000_000
    head = state.psi[-12 * 1281 :]
    assert np.abs(head).max() > 0, "it began at zero"
    assert "personalized" not in state.rounds[-1]
    assert 0 <= state.rounds[-1]["accuracy"] <= 1


@pytest.mark.process(seconds=20)
def test_flowers_engine_gives_the_same_bits(tmp_path):
    """Clients as Ray actors, in processes of their own."""
    scene = replace(SCENE, clients=3, ways=4)
    plan = replace(PLAN, compression="int8", clients_per_round=2)
    here = simulate(scene, plan, read_images, folder=tmp_path / "here")
    there = simulate(scene, plan, read_images, folder=tmp_path / "there", engine="flower")
    assert np.array_equal(here.state.psi, there.state.psi)
    for one, other in zip(here.state.rounds, there.state.rounds, strict=True):
        for name in one:
            if name.startswith("bytes_"):  # names of nodes and messages are longer there
                assert one[name] < other[name] < one[name] + 1_000
            else:
                assert one[name] == other[name], name


@pytest.mark.parametrize(
    ("scene", "plan", "why"),
    [
        (replace(SCENE, clients=2, ways=6), PLAN, "There are 2 clients, and a round takes 3"),
        (replace(SCENE, ways=1), PLAN, "leave some of the 12 classes to nobody"),
        (replace(SCENE, partition="by lot"), PLAN, "The partition"),
        (replace(SCENE, classes=99), PLAN, "has 12 classes"),
    ],
)
def test_a_scene_says_what_is_wrong_with_it(scene, plan, why):
    with pytest.raises(UsageError, match=why):
        simulate(scene, plan, read_images)


def test_dirichlet_clients_are_unequal():
    scene = SimulationConfig("sample", clients=4, partition="dirichlet", alpha=0.5, classes=3, test_images=30)
    outcome = simulate(scene, replace(PLAN, rounds=1), read_images)
    assert outcome.state.done == 1
    assert len({len(own) for own in outcome.population.partition.clients}) > 1


def make_folders(root, spell=str):
    learn, tried = sample_drawings(3, 0)
    for name, own in (("anna", (0, 1)), ("bob", (1, 2))):
        for i, (image, label) in enumerate(zip(learn.sources, learn.labels, strict=True)):
            if label in own:
                word = spell(learn.classes[label]) if name == "bob" else learn.classes[label]
                place = root / "train" / name / word
                place.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(place / f"{i}.png")
    for i in range(len(tried.sources)):
        if tried.labels[i] < 3 and i % 20 == 0:
            place = root / "test" / tried.classes[tried.labels[i]]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(tried.sources[i]).save(place / f"{i}.png")
    return root


def test_a_folder_for_each_client(tmp_path):
    root = make_folders(tmp_path)
    plan = replace(PLAN, rounds=1, clients_per_round=2)
    outcome = simulate(SimulationConfig("mine", str(root), partition="folders"), plan, read_images)
    assert outcome.state.rounds[0]["clients"] == ["anna", "bob"]
    assert len(outcome.population.classes) == 3


def test_class_names_that_differ_in_case_are_said(tmp_path):
    root = make_folders(tmp_path, spell=str.upper)
    with pytest.raises(InputError, match=r"anna.*bob|bob.*anna"):
        simulate(
            SimulationConfig("mine", str(root), partition="folders"),
            replace(PLAN, clients_per_round=2),
            read_images,
        )
