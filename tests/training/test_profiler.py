"""The profiler times a run by phase, and does nothing unless enabled."""

from __future__ import annotations

import time

import pytest
import torch

from filmtransfer.backbones import load_backbone
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.training.adapt import adapt
from filmtransfer.training.callbacks import Callbacks
from filmtransfer.training.presets import PRESETS
from filmtransfer.training.profiler import Profiler, kind_of


def test_a_run_is_divided_into_its_phases():
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 48)
    pixels = torch.randint(0, 256, (12, 3, 48, 48), dtype=torch.uint8)
    labels = torch.arange(3).repeat(4)
    profiler = Profiler()
    start = time.monotonic()
    adapt(
        model,
        pixels,
        pixels,
        labels,
        PRESETS["fast"].override(steps=4),
        seed=0,
        callbacks=Callbacks(profiler=profiler),
    )
    spent = time.monotonic() - start
    seen = profiler.to_dict()
    assert seen["steps"] == 4
    assert {"support: forward", "head: build", "query: backward", "support: backward", "optimiser"} <= set(
        seen["by_phase"]
    )
    assert set(seen["once"]) == {"activations below FiLM", "interpolation factor"}
    assert seen["step_seconds"] == pytest.approx(sum(seen["by_phase"].values()))
    assert 0 < 3 * seen["step_seconds"] + sum(seen["once"].values()) < spent, "three of the steps count"
    assert {"convolutions, forward", "convolutions, backward", "norms with FiLM"} <= set(seen["by_kind"])
    assert all(seconds > 0 for seconds in seen["by_kind"].values())


def test_disabled_it_records_nothing():
    profiler = Profiler(enabled=False)
    profiler.start(torch.device("meta"))
    with profiler.step(), profiler.timed_once("once"):
        profiler.end_phase("something")
    assert profiler.device.type == "cpu"
    assert profiler.to_dict() == {"steps": 0, "step_seconds": 0, "once": {}, "by_phase": {}, "by_kind": {}}


def test_kinds_of_operations():
    assert kind_of("aten.convolution_backward.default") == "convolutions, backward"
    assert kind_of("aten.native_batch_norm.default") == "norms with FiLM"
    assert kind_of("aten.hardtanh_.default") == "activations"
    assert kind_of("aten.linalg_cholesky_ex.default") == "head's factorisations"
    assert kind_of("aten.something_new.default") == "other"
