"""The stopwatch counts what happens, and does nothing unless asked."""

from __future__ import annotations

import time

import pytest
import torch

from filmtransfer.backbones import load_backbone
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.training.finetune.episodic import finetune
from filmtransfer.training.presets import PRESETS
from filmtransfer.training.profiler import Profile, kind_of


def test_a_run_is_divided_into_its_phases():
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 48)
    pixels = torch.randint(0, 256, (12, 3, 48, 48), dtype=torch.uint8)
    labels = torch.arange(3).repeat(4)
    profile = Profile(on=True)
    settings = PRESETS["fast"].override(steps=4)
    began = time.monotonic()
    finetune(model, pixels, labels, settings, seed=0, profile=profile)
    spent = time.monotonic() - began
    seen = profile.to_dict()
    assert seen["steps"] == 4
    assert {"support: forward", "head: build", "query: backward", "support: backward", "optimiser"} <= set(
        seen["by_phase"]
    )
    assert seen["step_seconds"] == pytest.approx(sum(seen["by_phase"].values()))
    assert 0 < 3 * seen["step_seconds"] + sum(seen["once"].values()) < spent, "three of the steps count"
    assert {"convolutions, forward", "convolutions, backward", "norms with FiLM"} <= set(seen["by_kind"])
    assert all(seconds > 0 for seconds in seen["by_kind"].values())


def test_off_it_sees_nothing():
    profile = Profile()
    with profile.step(), profile.phase("once"):
        profile.mark("something")
    assert profile.to_dict() == {"steps": 0, "step_seconds": 0, "once": {}, "by_phase": {}, "by_kind": {}}


def test_kinds_of_arithmetic():
    assert kind_of("aten.convolution_backward.default") == "convolutions, backward"
    assert kind_of("aten.native_batch_norm.default") == "norms with FiLM"
    assert kind_of("aten.hardtanh_.default") == "activations"
    assert kind_of("aten.linalg_cholesky_ex.default") == "head's factorisations"
    assert kind_of("aten.something_new.default") == "other"
