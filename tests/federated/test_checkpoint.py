"""Checkpoints: a resumed federation ends with the same bits as an uninterrupted one."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from filmtransfer.errors import UpdateFileError, UsageError
from filmtransfer.federated.checkpoint import Checkpoint
from tests.federated.tiny import CONFIG, PLAN, make_server, population


@pytest.mark.slow
@pytest.mark.parametrize("change", [{}, {"compression": "int8"}, {"head": "lda", "algorithm": "median"}])
def test_a_resumed_federation_ends_with_the_same_bits(change, tmp_path):
    plan = PLAN.override(rounds=3, **change)
    complete = make_server(population(plan, CONFIG), tmp_path / "complete", state=True).run()
    halves = tmp_path / "halves"
    for rounds in (1, 2):
        make_server(population(replace(plan, rounds=rounds), CONFIG), halves, state=True).run()
    resumed = make_server(population(plan, CONFIG), halves, state=True).run()
    assert np.array_equal(complete.psi, resumed.psi)
    lines = [(tmp_path / name / "rounds.jsonl").read_text().splitlines() for name in ("complete", "halves")]
    assert len(lines[0]) == 4  # the first is the evaluation before the first round
    for one, other in zip(*lines, strict=True):
        known = json.loads(one)  # the halves were also evaluated where they ended
        assert {k: v for k, v in json.loads(other).items() if k in known} == known


def test_a_finished_federation_is_not_changed(tmp_path):
    make_server(population(), tmp_path).run()
    before = (tmp_path / "checkpoint.npz").read_bytes()
    log: list[str] = []
    state = make_server(population(), tmp_path, log=log.append).run()
    assert state.done == PLAN.rounds
    assert (tmp_path / "checkpoint.npz").read_bytes() == before
    assert log == []


def test_a_folder_of_another_plan_is_refused(tmp_path):
    make_server(population(), tmp_path).run()
    with pytest.raises(UsageError, match="differs in learning_rate, seed"):
        Checkpoint.load(tmp_path, PLAN.override(learning_rate=0.5, seed=3))
    assert Checkpoint.load(tmp_path, replace(PLAN, rounds=9, timeout=1.0)) is not None


def test_outliers_of_an_earlier_version_are_read_by_their_new_name(tmp_path):
    record = {"round": 1, "clients": ["anna"], "contributed": ["anna"], "outvoted": ["anna"]}
    Checkpoint(np.zeros(3), ["a", "b"], [record]).save(tmp_path, PLAN)
    loaded = Checkpoint.load(tmp_path, PLAN)
    assert loaded is not None
    assert "outvoted" not in loaded.rounds[0]
    assert loaded.rounds[0]["outliers"] == ["anna"]


def test_all_chosen_clients_of_a_round_of_an_earlier_version_may_have_contributed(tmp_path):
    record = {"round": 1, "clients": ["anna", "bob"], "missing": {"bob": "no answer"}, "refused": {}}
    Checkpoint(np.zeros(3), ["a", "b"], [record]).save(tmp_path, PLAN)
    loaded = Checkpoint.load(tmp_path, PLAN)
    assert loaded is not None
    assert loaded.rounds[0]["contributed"] == ["anna", "bob"]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 half a file"])
def test_a_damaged_checkpoint_is_refused(content, tmp_path):
    (tmp_path / "checkpoint.npz").write_bytes(content)
    with pytest.raises(UpdateFileError, match="not a checkpoint"):
        Checkpoint.load(tmp_path, PLAN)
