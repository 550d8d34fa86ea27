"""Devices, bfloat16 and compiling: used where they work, and never at the cost of the run."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch.nn import functional as F

from filmtransfer import film
from filmtransfer.backbones import assemble, build, load_backbone, record_for
from filmtransfer.errors import FitWarning, UnavailableError, UsageError
from filmtransfer.heads import HEADS, make_head
from filmtransfer.model import AdaptedModel, Body, Hardware
from filmtransfer.model import hardware as module
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.episodic import finetune
from filmtransfer.training.presets import PRESETS


def images(count: int = 8) -> torch.Tensor:
    return torch.randint(
        0, 256, (count, 3, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


def test_devices_by_name(monkeypatch):
    assert Hardware.choose("cpu").device.type == "cpu"
    for name in ("toaster", "meta", "cpu:x"):
        with pytest.raises(UsageError, match="The device"):
            Hardware.choose(name)
    with pytest.raises(UsageError, match="precision"):
        Hardware.choose("cpu", "int3")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert Hardware.choose("auto").device.type == "cpu"
    for absent in ("cuda", "mps"):
        with pytest.raises(UnavailableError, match=f"no {absent} device"):
            Hardware.choose(absent)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert Hardware.choose("auto").device.type == "mps"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert Hardware.choose("auto", local_rank=1).device == torch.device("cuda", 1)
    with pytest.raises(UsageError, match="no CUDA device 2"):
        Hardware.choose("cuda:2")


def test_threads_by_wish_by_environment_or_by_cores(monkeypatch):
    before = torch.get_num_threads()
    try:
        assert module.choose_threads(1) == 1
        with pytest.raises(UsageError, match="threads"):
            module.choose_threads(0)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        torch.set_num_threads(2)
        assert module.choose_threads() == 2, "what the environment says has been heard by torch"
        monkeypatch.delenv("OMP_NUM_THREADS")
        monkeypatch.setattr(module, "usable_cores", lambda: 2)
        assert module.choose_threads() == 2
        monkeypatch.setattr(module, "usable_cores", lambda: 4)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as torchrun does
        assert module.choose_threads(processes=2) == 2
        assert module.choose_threads(processes=8) == 1
    finally:
        torch.set_num_threads(before)


EPISODIC = [name for name, head in HEADS.items() if head.trained_by == "episodes"]


@pytest.mark.parametrize("head", EPISODIC)
@pytest.mark.parametrize("rows", [8, 2000])
def test_nothing_stays_behind_on_another_device(head, rows):
    """Meta tensors refuse to meet others, as a GPU's do: a walk there finds what was left on the CPU."""
    backbone = assemble(record_for("resnet18"), build(record_for("resnet18")))
    model = AdaptedModel(backbone, make_head(head), 48, hardware=Hardware(torch.device("meta")))
    assert all(p.device.type == "meta" for p in model.trainable_parameters())
    features = model.embed(images())
    support = features.repeat(rows // 8, 1)
    state = model.head.build(support, torch.arange(rows) % 2)
    logits = model.head.evaluate(state, features)
    F.cross_entropy(logits, (torch.arange(8) % 2).to("meta")).backward()
    assert all(p.grad is not None and p.grad.device.type == "meta" for p in model.trainable_parameters())
    assert backbone.device.type == "cpu", "the backbone it was made from stays where it was"


@pytest.mark.process
def test_bfloat16_only_where_a_child_process_survived_it(monkeypatch):
    module.has_bfloat16.cache_clear()
    monkeypatch.setattr(module, "_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    with pytest.warns(FitWarning, match="bfloat16 does not work on this cpu"):
        assert Hardware.choose("cpu", "bfloat16").precision == "float32"
    module.has_bfloat16.cache_clear()
    monkeypatch.setattr(module, "_PROBE", "pass")
    assert Hardware.choose("cpu", "bfloat16").precision == "bfloat16"
    module.has_bfloat16.cache_clear()


@pytest.mark.process
def test_bfloat16_is_for_the_backbone_only():
    module.has_bfloat16.cache_clear()
    if not module.has_bfloat16("cpu"):
        pytest.skip("this CPU cannot")
    backbone = load_backbone("efficientnet_lite0")
    plain = AdaptedModel(backbone, make_head("lda"), 48)
    half = AdaptedModel(
        backbone, make_head("lda"), 48, body=Body(film_from=2), hardware=Hardware.choose("cpu", "bfloat16")
    )
    assert half.below(images()).dtype == torch.bfloat16
    features, want = half.embed(images()).detach(), plain.features(images())
    assert features.dtype == torch.float32, "what the head is given"
    assert 0 < (features - want).norm() < 0.05 * want.norm()
    assert torch.equal(half.features(images()), want), "what it is built from is float32 throughout"
    labels = torch.arange(2).repeat(4)
    config = PRESETS["fast"].override(steps=2)
    history = finetune(half, Activations(half, images(), config.cache_mb), labels, config, seed=0)
    assert history.stopped == "done"


def test_without_a_compiler_it_runs_uncompiled(monkeypatch):
    def broken(_):
        def call(_):
            raise RuntimeError("No working C++ compiler found")

        return call

    monkeypatch.setattr(torch, "compile", broken)
    backbone = load_backbone("efficientnet_lite0")
    model = AdaptedModel(backbone, make_head("lda"), 48, hardware=Hardware.choose("cpu", compile=True))
    with pytest.warns(FitWarning, match="No working C\\+\\+ compiler"):
        got = model.features(images())
    assert torch.equal(got, AdaptedModel(backbone, make_head("lda"), 48).features(images()))
    assert torch.equal(got, model.features(images())), "and is not tried again"


def test_compiled_is_what_runs(monkeypatch):
    calls = 0

    def counting(run):
        def call(x):
            nonlocal calls
            calls += 1
            return run(x)

        return call

    monkeypatch.setattr(torch, "compile", counting)
    backbone = load_backbone("efficientnet_lite0")
    model = AdaptedModel(backbone, make_head("lda"), 48, hardware=Hardware.choose("cpu", compile=True))
    model.features(images(), batch=4)
    assert calls == 2


def test_an_error_of_ones_own_is_not_the_compilers(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda run: run)
    hardware = Hardware.choose("cpu", compile=True)
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 48, hardware=hardware)
    with pytest.raises(RuntimeError, match="7 elements not 32"):
        model.above(torch.zeros(1, 7, 8, 8))


@pytest.mark.parametrize("compile", [False, True])
def test_a_copy_is_a_model_of_its_own(compile, monkeypatch):
    """Copied or pickled, it walks through its own network."""
    monkeypatch.setattr(torch, "compile", lambda run: lambda x: run(x))
    backbone = assemble(record_for("resnet18"), build(record_for("resnet18")))
    hardware = Hardware.choose("cpu", compile=compile)
    model = AdaptedModel(backbone, make_head("lda"), 48, hardware=hardware)
    before = model.features(images())
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other.features(images()), before)
        with torch.no_grad():
            for parameter in film.parameters(other.network):
                parameter.add_(0.1)
        assert not torch.equal(other.features(images()), before)
        assert torch.equal(model.features(images()), before)
