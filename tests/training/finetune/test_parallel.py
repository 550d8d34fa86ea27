"""Two real processes take the step that one takes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from filmtransfer.episodes import episodes
from filmtransfer.errors import UsageError
from filmtransfer.heads import make_head
from filmtransfer.model import Update
from filmtransfer.processes import free_port
from filmtransfer.training.finetune.gradient import NonFiniteError, accumulate
from filmtransfer.training.finetune.parallel import World, backends

# The same small network, images and episodes in every process.
SETUP = """
import json, math, os, signal, sys, torch
from filmtransfer.episodes import episodes
from filmtransfer.heads import make_head
from filmtransfer.training.finetune.gradient import NonFiniteError, accumulate
from filmtransfer.training.finetune.loop import run_steps
from filmtransfer.training.finetune.parallel import World, launched

def gradients(world, dtype):
    found = []
    for name in ("lda", "qda", "protonets"):
        for split in ("split", "no_split", "use_all"):
            generator = torch.Generator().manual_seed(0)
            net = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.Tanh(), torch.nn.Linear(9, 12)).to(dtype)
            with torch.no_grad():
                for p in net.parameters():
                    p.copy_(torch.randn(p.shape, generator=generator, dtype=dtype) * 0.5)
            inputs = torch.randn(25, 6, generator=generator, dtype=dtype)
            labels = torch.arange(5).repeat(5)
            head = make_head(name).to(dtype)
            learned = [*net.parameters(), *head.parameters()]
            episode = next(episodes(labels, split, 11, 0))
            seen = []
            def embed(i):
                seen.extend(i.tolist())
                return net(inputs[i])
            result = accumulate(embed, head, episode, 3, world=world)
            world.add_gradients(learned)
            grads = torch.cat([p.grad.flatten() for p in learned]).tolist()
            found.append({"loss": result.loss, "accuracy": result.accuracy, "gradient": grads, "images": len(seen)})
    return found
"""

BODY = """
threads = len(os.listdir("/proc/self/task"))
with launched() as world:
    found = gradients(world, torch.float64)
    found += gradients(world, torch.float32)
    # One process meets a number that is none: both stop, at the same step.
    net = torch.nn.Linear(6, 12)
    inputs, labels = torch.randn(20, 6), torch.arange(4).repeat(5)
    tasks = episodes(labels, "split", 8, 0)
    def embed(i):
        features = net(inputs[i])
        return features * math.nan if world.rank == 1 and step > 2 and not support(i) else features
    def support(i):
        return bool(torch.isin(i, episode.support).any())
    step = 0
    def backward():
        global step, episode
        step += 1
        episode = next(tasks)
        return accumulate(embed, make_head("lda"), episode, 4, world=world)
    learned = list(net.parameters())
    history = run_steps(backward, learned, torch.optim.Adam(learned), 5, world=world)
    named = sorted(history.not_finite) == sorted(set(episode.query.tolist()) & set(history.not_finite)) != []
    # Ctrl-C reaches one process only: both end after that step.
    step = -100
    def interrupted():
        result = backward()
        if world.rank == 1 and step == -97:
            os.kill(os.getpid(), signal.SIGINT)
        return result
    stopped = run_steps(interrupted, learned, torch.optim.Adam(learned), 50, world=world)
    mine = [history.stopped, history.steps, named, stopped.stopped, stopped.steps]
    if world.rank == 0 or mine != ["not finite", 1, True, "interrupted", 2]:
        print(json.dumps({"world": world.size, "found": found, "mine": mine}))
# No thread of the process group outlives it: one would abort the end of the interpreter.
assert len(os.listdir("/proc/self/task")) == threads, os.listdir("/proc/self/task")
"""


def torchrun(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-addr"]
    command += ["127.0.0.1", "--master-port", str(free_port()), *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment, timeout=300)


@pytest.mark.process(seconds=15)
def test_gradients_equal_those_of_one_process(tmp_path):
    (tmp_path / "two.py").write_text(SETUP + BODY)
    ran = torchrun(["two.py"], tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    two = json.loads(ran.stdout)
    assert two["world"] == 2
    assert two["mine"] == ["not finite", 1, True, "interrupted", 2], (
        "the last numbers seen to be good are kept"
    )
    here: dict = {}
    exec(SETUP, here)
    alone = here["gradients"](World(), torch.float64) + here["gradients"](World(), torch.float32)
    assert len(alone) == len(two["found"]) == 18
    for i, (want, got) in enumerate(zip(alone, two["found"], strict=True)):
        tolerance = 1e-10 if i < 9 else 1e-5
        assert got["loss"] == pytest.approx(want["loss"], rel=tolerance)
        assert got["accuracy"] == want["accuracy"]
        a, b = np.array(got["gradient"]), np.array(want["gradient"])
        assert np.linalg.norm(a - b) <= tolerance * np.linalg.norm(b)
        assert abs(got["images"] - want["images"] / 2) <= 1, "each process computes its half of the images"


@pytest.mark.long
@pytest.mark.process(seconds=20)
def test_the_command_under_torchrun(tmp_path):
    generator = np.random.default_rng(0)
    for name, base in (("dark", 40), ("light", 180)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            noise = generator.integers(base, base + 40, (40, 40, 3)).astype(np.uint8)
            Image.fromarray(noise).save(tmp_path / "photos" / name / f"{i}.png")
    words = ["train", "photos", "--steps", "3", "--image-size", "48", "--split", "no_split", "--json"]
    ran = torchrun(["-m", "filmtransfer", *words, "--out", "two.safetensors"], tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout)["steps"] == 3, "one document: the first process speaks"
    alone = subprocess.run(
        [sys.executable, "-m", "filmtransfer", *words, "--out", "one.safetensors"],
        capture_output=True, cwd=tmp_path, timeout=300,
        env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
    )  # fmt: skip
    assert alone.returncode == 0
    one, two = (Update.load(tmp_path / f"{name}.safetensors") for name in ("one", "two"))
    moved = np.concatenate([v - float("gamma" in k) for k, v in one.film.items()])
    apart = np.concatenate([two.film[k] - v for k, v in one.film.items()])
    assert moved.any()
    assert np.linalg.norm(apart) < 0.02 * np.linalg.norm(
        moved
    )  # Adam's first steps are signs: rounding can turn a tiny one


def test_more_processes_than_support_images():
    episode = next(episodes(torch.arange(2).repeat(2), "split", 2, 0))
    with pytest.raises(UsageError, match="8 processes cannot share 2 support images"):
        accumulate(lambda i: torch.zeros(len(i), 3), make_head("lda"), episode, 4, world=World(0, 8))


def test_shares_cover_everything_once():
    for count in (0, 1, 5, 8, 13):
        for size in (1, 2, 3, 8):
            covered = [i for rank in range(size) for i in range(count)[World(rank, size).share(count)]]
            assert covered == list(range(count))


def test_a_bad_image_is_named():
    inputs = torch.randn(24, 6, generator=torch.Generator().manual_seed(0))
    inputs[[7, 9]] = torch.nan
    net = torch.nn.Linear(6, 12)
    episode = next(episodes(torch.arange(4).repeat(6), "use_all", 24, 0))
    with pytest.raises(NonFiniteError) as caught:
        accumulate(lambda i: net(inputs[i]), make_head("lda"), episode, 4)
    assert sorted(caught.value.images) == [7, 9]


@pytest.mark.parametrize("micro_batch", [0, -3])
def test_a_micro_batch_below_one_is_refused(micro_batch):
    episode = next(episodes(torch.arange(2).repeat(4), "split", 8, 0))
    with pytest.raises(UsageError, match="micro_batch"):
        accumulate(lambda i: torch.zeros(len(i), 3), make_head("lda"), episode, micro_batch)


def test_both_kinds_of_tensors_can_be_summed_on_a_machine_with_gpus(monkeypatch):
    assert backends() == "gloo"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert backends() == "cpu:gloo,cuda:nccl"
