"""Compare the training engine with a plain loop (plain_loop.py): same images and episodes, ratios within one run.

    python benchmarks/engine.py                               all but the accuracy part, about 20 minutes
    python benchmarks/engine.py --part accuracy --data ../shared/data      about 8 minutes per dataset

Writes benchmarks/results/engine.json, one entry per part, and from it engine.md and engine.png. Each side of a ratio runs in
its own process, so that neither inherits the memory of the other. The machine should be idle otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from engine_page import write_pages
from few_shot_tasks import load_tensors, task
from filmtransfer.backbones import Backbone, assemble, backbone_facts, build, load_backbone, record_for
from filmtransfer.data import load
from filmtransfer.data.sample import sample_drawings
from filmtransfer.episodes import Episode
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body, Hardware
from filmtransfer.model.tensors import resize
from filmtransfer.seeding import make_generator, permutation
from filmtransfer.training.adapt import adapt
from filmtransfer.training.callbacks import Callbacks, Progress
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.episodic import finetune
from filmtransfer.training.finetune.gradient import accumulate
from filmtransfer.training.presets import preset
from filmtransfer.training.torch_settings import configure_process, denormals_as_zero
from plain_loop import PlainModel, dense_head

RESULTS = Path(__file__).parent / "results"
FILE = RESULTS / "engine.json"
MICRO_BATCH = 64
SPIN = "20000"  # how long threads spin before they sleep under the command (cli/app.py)

# Backbone, head, classes; 200 images without a split, 50 of them support, 128 pixels.
STEPS: dict[str, dict[str, Any]] = {
    "BiT-R50x1, 10 classes, LDA": {
        "backbone": "bit_m_r50x1",
        "head": "lda",
        "classes": 10,
        "steps": 4,
        "target": 2.5,
    },
    "BiT-R50x1, 50 classes, QDA": {
        "backbone": "bit_m_r50x1",
        "head": "qda",
        "classes": 50,
        "steps": 2,
        "target": 10,
    },
    "efficientnet_lite0, 10 classes, LDA": {
        "backbone": "efficientnet_lite0",
        "head": "lda",
        "classes": 10,
        "steps": 6,
        "target": 2.5,
    },
}
SETS = ("cifar10", "eurosat", "svhn")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--part", choices=PARTS, nargs="+", default=[p for p in PARTS if p != "accuracy"])
    options.add_argument("--data", type=Path, help="the folder of the datasets, for the accuracy part")
    options.add_argument("--seeds", type=int, default=1, help="number of seeds of the accuracy part")
    options.add_argument("--child", help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.child:
        work = json.loads(args.child)
        print(json.dumps(CHILDREN[work.pop("do")](**work)))
        return
    if "accuracy" in args.part and args.data is None:
        options.error("the accuracy part needs --data")
    for part in args.part:
        results = json.loads(FILE.read_text()) if FILE.exists() else {}
        results["machine"] = machine()
        results[part] = accuracy(args.data, args.seeds) if part == "accuracy" else PARTS[part]()
        FILE.write_text(json.dumps(results, indent=1) + "\n")
        print(part, json.dumps(results[part]), flush=True)
    write_pages(FILE)


def machine() -> dict[str, Any]:
    return {
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "matmul_gflops": round(matmul_speed(), 1),
    }


def child(spin: str | None = SPIN, **work: Any) -> Any:
    """Run one measurement in a new process; ``spin`` as the command sets it, or None for the default of torch."""
    command = [sys.executable, __file__, "--child", json.dumps(work)]
    environment = os.environ | ({} if spin is None else {"GOMP_SPINCOUNT": spin})
    ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(ran.stdout.splitlines()[-1])


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    """Return the median of several runs, after one that is not counted."""
    work()
    times = []
    for _ in range(repeats):
        began = time.monotonic()
        work()
        times.append(time.monotonic() - began)
    return statistics.median(times)


# Heads alone


def heads() -> dict[str, Any]:
    """Measure forward and backward passes at D = 2048, N = 100, C = 10, Q = 100."""
    results = {}
    for name, target in (("lda", 100), ("qda", 200)):
        ours, dense = head_work(name, 100, 10, 2048, 100), dense_work(name, 100, 10, 2048, 100)
        loss, gradient = ours()
        dense_loss, dense_gradient = dense()
        if abs(loss - dense_loss) > 1e-3 * abs(dense_loss):
            raise RuntimeError(f"{name}: the loss is {loss}, that of the dense head {dense_loss}")
        results[name] = {
            "plain_seconds": seconds(dense, 3),
            "seconds": seconds(ours, 30),
            "target": target,
            "loss_difference": abs(loss - dense_loss) / abs(dense_loss),
            "gradient_difference": float(
                (gradient.double() - dense_gradient).norm() / dense_gradient.double().norm()
            ),
        }
    return results


def _features(rows: int, classes: int, columns: int, queries: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    labels, truth = torch.arange(rows) % classes, torch.arange(queries) % classes
    means = 0.05 * torch.randn(classes, columns, generator=generator)  # near enough for a loss that is not 0
    support = (means[labels] + torch.randn(rows, columns, generator=generator)).requires_grad_()
    query = (means[truth] + torch.randn(queries, columns, generator=generator)).requires_grad_()
    return support, labels, query, truth


def head_work(name: str, *sizes: int) -> Callable[[], tuple[float, torch.Tensor]]:
    support, labels, query, truth = _features(*sizes)
    head = make_head(name)

    def work() -> tuple[float, torch.Tensor]:
        support.grad = query.grad = None
        loss = F.cross_entropy(head.evaluate(head.build(support, labels), query), truth)
        loss.backward()
        return float(loss.detach()), torch.cat(cast(list[torch.Tensor], [support.grad, query.grad]))

    return work


def dense_work(name: str, *sizes: int) -> Callable[[], tuple[float, torch.Tensor]]:
    support, labels, query, truth = _features(*sizes)
    e = torch.tensor({"lda": (1.0, 1.0), "qda": (0.5, 0.5, 1.0)}[name]).requires_grad_()

    def work() -> tuple[float, torch.Tensor]:
        support.grad = query.grad = e.grad = None
        loss = F.cross_entropy(dense_head(name, e, support, labels, query), truth)
        loss.backward()
        return float(loss.detach()), torch.cat(cast(list[torch.Tensor], [support.grad, query.grad]))

    return work


# Complete steps


def steps() -> dict[str, Any]:
    """Measure time, losses and peak memory of the plain loop and the engine, each in its own process."""
    results = {}
    for title, work in STEPS.items():
        settings = {k: work[k] for k in ("backbone", "head", "classes", "steps")}
        plain, ours = child(None, do="plain", **settings), child(do="ours", **settings)
        differences = [abs(a - b) / abs(a) for a, b in zip(plain["losses"], ours["losses"], strict=True)]
        if max(differences) > 1e-2:
            raise RuntimeError(f"{title}: the losses are not those of the plain loop: {plain}, {ours}")
        results[title] = {
            "target": work["target"],
            "plain": plain,
            "ours": ours,
            "largest_loss_difference": max(differences),
        }
        print(title, results[title], flush=True)
    return results


def backbone_of(name: str, *, fold: bool) -> Backbone:
    if record_for(name).package:
        return load_backbone(name, fold=fold)
    torch.manual_seed(0)  # real weights are not available offline; the computation is the same
    return assemble(record_for(name), build(record_for(name)), fold=fold)


def drawings(count: int, size: int, name: str) -> torch.Tensor:
    spec = load_backbone("efficientnet_lite0").pixels
    pixels = torch.from_numpy(load(sample_drawings(min(100, -(-count // 12)), 0)[0], spec).pixels)
    order = permutation(len(pixels), make_generator(0, name))
    return resize(pixels[order.repeat(-(-count // len(pixels)))[:count]], size)


def episode_of(count: int, classes: int, support: int, step: int) -> Episode:
    """Return an episode without split: all images are queries, the support has equally many of each class."""
    labels = torch.arange(count) % classes
    generator = make_generator(step, "engine")
    shots = support // classes
    members = [torch.nonzero(labels == c).flatten() for c in range(classes)]
    chosen = torch.cat([m[permutation(len(m), generator)[:shots]] for m in members])
    return Episode(chosen, labels[chosen], torch.arange(count), labels)


def run_plain(backbone: str, head: str, classes: int, steps: int, images: int = 200) -> dict[str, Any]:
    model = PlainModel(backbone_of(backbone, fold=False), head)
    pixels = drawings(images, 128, "engine")
    return _run(
        model.trainable_parameters(),
        lambda i: model.step(pixels, episode_of(images, classes, 50, i), MICRO_BATCH),
        steps,
    )


def run_ours(
    backbone: str,
    head: str,
    classes: int,
    steps: int,
    images: int = 200,
    layout: bool = True,
    fold: bool = True,
    keep: bool = True,
    cache: bool = True,
) -> dict[str, Any]:
    """Run the engine, optionally without some of its optimizations."""
    if keep:
        configure_process()
    loaded = backbone_of(backbone, fold=fold)
    if not layout:
        loaded = replace(loaded, memory_format=torch.contiguous_format)
        loaded.module.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    model = AdaptedModel(loaded, make_head(head), 128)
    pixels = drawings(images, 128, "engine")
    embed = Activations(model, pixels, preset("fast").cache_mb if cache else 0)

    def step(i: int) -> float:
        with denormals_as_zero():
            return accumulate(embed, model.head, episode_of(images, classes, 50, i), MICRO_BATCH).loss

    return _run(model.trainable_parameters(), step, steps) | {"cached_mb": embed.bytes / 2**20}


def _run(parameters: list[Any], gradient: Callable[[int], float], steps: int) -> dict[str, Any]:
    optimiser = torch.optim.Adam(parameters, lr=0.0035)
    before = _peak_mb()
    losses, times = [], []
    for i in range(steps):
        began = time.monotonic()
        optimiser.zero_grad()
        losses.append(gradient(i))
        optimiser.step()
        times.append(time.monotonic() - began)
    return {
        "seconds": statistics.median(times[1:]),  # the first step warms up
        "losses": losses,
        "peak_mb": _peak_mb(),
        "peak_mb_before": before,
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# The effect of each optimization


def savings() -> dict[str, Any]:
    """Measure a step of the plain loop, then with one optimization after the other; BiT keeps the plain layout."""
    results: dict[str, Any] = {}
    for title, backbone in (("BiT-R50x1", "bit_m_r50x1"), ("efficientnet_lite0", "efficientnet_lite0")):
        work: dict[str, Any] = {"backbone": backbone, "head": "lda", "classes": 10, "steps": 4}
        without: dict[str, Any] = {"layout": False, "fold": False, "keep": False, "cache": False}
        plain = json.loads(FILE.read_text())["steps"][f"{title}, 10 classes, LDA"]["plain"]
        results[title] = {"the plain loop": plain["seconds"]}
        for name, saving in {
            "each image once, low-rank head": {},
            "channels last": {"layout": True},
            "frozen work once, no copies": {"fold": True},
            "freed memory kept": {"keep": True},
            "activations below FiLM kept": {"cache": True},
        }.items():
            if backbone != "bit_m_r50x1" or name != "channels last":
                without |= saving
                results[title][name] = child(do="ours", **work, **without)["seconds"]
        print(title, results[title], flush=True)
    return results


# Memory as the query set grows


def memory() -> dict[str, Any]:
    work: dict[str, Any] = {"backbone": "efficientnet_lite0", "head": "lda", "classes": 10, "steps": 2}
    return {
        str(images): {"ours": child(do="ours", images=images, **work)["peak_mb"]}
        | ({"plain": child(None, do="plain", images=images, **work)["peak_mb"]} if images == 200 else {})
        for images in (200, 600, 2000)
    }


# Where FiLM begins


def cuts() -> dict[str, Any]:
    """Measure a step of 100 images (support 50) with FiLM from each stage on, by image size."""
    return {str(size): child(do="cuts", size=size) for size in (128, 160, 224)}


def run_cuts(size: int) -> dict[str, float]:
    configure_process()
    backbone = backbone_of("efficientnet_lite0", fold=True)
    pixels = drawings(100, size, "engine")
    times = {}
    for stage in range(len(backbone_facts("efficientnet_lite0").stages)):
        model = AdaptedModel(backbone, make_head("lda"), size, body=Body(film_from=stage))
        embed = Activations(model, pixels, 4096)
        episode = episode_of(100, 10, 50, 0)
        times[str(stage)] = seconds(partial(accumulate, embed, model.head, episode, MICRO_BATCH), 4)
    return times


# How the cost of a step grows


def growth() -> dict[str, Any]:
    """Measure milliseconds of the heads by N, C and D, and of a lite0 step by images and image size."""
    base = {"N": 100, "C": 10, "D": 1280}
    times: dict[str, Any] = {}
    for letter, values in {
        "N": (25, 50, 100, 200, 400, 800, 1600),
        "C": (2, 5, 10, 20, 50, 100),
        "D": (320, 640, 1280, 2048, 4096),
    }.items():
        for name in ("lda", "qda"):
            times[f"{name} by {letter}"] = {}
            for value in values:
                sizes = base | {letter: value}
                if letter == "C":
                    sizes["N"] = max(100, 2 * value)
                work = head_work(name, sizes["N"], sizes["C"], sizes["D"], 64)
                times[f"{name} by {letter}"][str(value)] = 1000 * seconds(work, 5)
    times["step by image size"] = {str(s): 1000 * child(do="step", size=s) for s in (64, 96, 128, 160, 224)}
    times["step by images"] = {str(n): 1000 * child(do="step", images=n) for n in (100, 200, 400, 800)}
    return times


def run_step(size: int = 128, images: int = 100) -> float:
    configure_process()
    model = AdaptedModel(backbone_of("efficientnet_lite0", fold=True), make_head("lda"), size)
    embed = Activations(model, drawings(images, size, "engine"), preset("fast").cache_mb)
    episode = episode_of(images, 10, 50, 0)
    return seconds(lambda: accumulate(embed, model.head, episode, MICRO_BATCH), 4)


# On a busy machine


def busy() -> dict[str, float]:
    """Measure a step on an idle machine and next to two busy processes, with spinning and with sleeping threads."""
    times = {}
    for loaded in (False, True):
        loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * loaded)]
        try:
            for name, spin in (("threads that spin", None), ("threads that sleep", SPIN)):
                times[f"{name}, {'busy' if loaded else 'quiet'}"] = child(spin, do="step")
        finally:
            for loop in loops:
                loop.kill()
                loop.wait()
    return times


# Speed relative to a matrix product


def matmul_speed(side: int = 2048) -> float:
    a, b = torch.randn(side, side), torch.randn(side, side)
    return 2 * side**3 / seconds(lambda: a @ b, 15) / 1e9


def speed() -> dict[str, Any]:
    """Measure each backbone with and without compilation."""
    results: dict[str, Any] = {}
    for name in ("bit_m_r50x1", "efficientnet_lite0"):
        for compiled in (False, True):
            title = f"{name}, compiled" if compiled else name
            results[title] = child(do="speed", backbone=name, compiled=compiled)
            print(title, results[title], flush=True)
    return results


def run_speed(backbone: str, compiled: bool) -> dict[str, float]:
    """Measure GFLOP/s of forward passes, and of forward and backward passes, at 128 pixels with 64 images."""
    configure_process()
    matmul = matmul_speed()
    loaded = backbone_of(backbone, fold=True)
    model = AdaptedModel(loaded, make_head("lda"), 128)
    pixels = drawings(64, 128, "engine")
    with FlopCounterMode(display=False) as both:
        model.embed(pixels[:1]).sum().backward()
    with FlopCounterMode(display=False) as forward, torch.no_grad():
        model.embed(pixels[:1])
    if compiled:
        model = AdaptedModel(loaded, make_head("lda"), 128, hardware=Hardware(loaded.device, compile=True))

    def predict() -> None:
        with torch.no_grad():
            model.embed(pixels)

    began = time.monotonic()
    model.embed(pixels).sum().backward()
    first = time.monotonic() - began
    train = seconds(lambda: model.embed(pixels).sum().backward(), 5)
    result = {
        "train_gflops": 64 * both.get_total_flops() / train / 1e9,
        "train_images_a_second": 64 / train,
        "first_pass_seconds": first,
    }
    if not compiled:
        result["predict_gflops"] = 64 * forward.get_total_flops() / seconds(predict, 5) / 1e9
    return result | {"matmul_gflops": (matmul + matmul_speed()) / 2}


# Time to the accuracy of the paper's protocol


def accuracy(data: Path, seeds: int) -> dict[str, Any]:
    """Measure each run in its own process; stored runs are kept."""
    runs = json.loads(FILE.read_text()).get("accuracy", {}) if FILE.exists() else {}
    for seed in range(seeds):
        for name in SETS:
            key = f"{name} {seed}"
            if key not in runs:
                runs[key] = child(do="accuracy", data=str(data), name=name, seed=seed)
                print(key, runs[key], flush=True)
                if FILE.exists():
                    stored = json.loads(FILE.read_text())
                    FILE.write_text(json.dumps(stored | {"accuracy": runs}, indent=1) + "\n")
    return runs


def run_accuracy(data: str, name: str, seed: int) -> dict[str, Any]:
    """Train with the fast preset, and with the paper's 400 steps and fixed split at 128 pixels; both heads at 224."""
    configure_process()
    few = task(Path(data), name, 10, seed, 500)
    backbone = load_backbone("efficientnet_lite0")
    fast = preset("fast").resolve(backbone)
    model = AdaptedModel(
        backbone, make_head("lda"), fast.image_size, body=Body(film_from=fast.film_from or 0)
    )
    learn, held_out = load_tensors(few.learn, model.pixels), load_tensors(few.held_out, model.pixels)
    small = resize(learn.pixels, fast.train_size or fast.image_size)

    def test_accuracy(m: AdaptedModel) -> float:
        return float((m.logits(held_out.pixels).argmax(1) == held_out.labels).float().mean())

    began = time.monotonic()
    adapt(model, learn.pixels, small, learn.labels, fast, seed=seed)
    result: dict[str, Any] = {"fast_seconds": time.monotonic() - began, "fast": test_accuracy(model)}
    paper = AdaptedModel(backbone, make_head("lda"), fast.image_size)
    small = resize(learn.pixels, 128)
    by_step: dict[str, list[float]] = {}
    began, evaluation = time.monotonic(), 0.0

    def on_step(progress: Progress) -> None:
        nonlocal evaluation
        if progress.step in (100, 400):
            paused = time.monotonic()
            paper.configure(learn.pixels, learn.labels)
            by_step[str(progress.step)] = [test_accuracy(paper), paused - began - evaluation]
            evaluation += time.monotonic() - paused

    config = preset("paper").override(film_from=0)
    images = Activations(paper, small, config.cache_mb)
    finetune(paper, images, learn.labels, config, seed=seed, callbacks=Callbacks(on_step=on_step))
    return result | {"paper": by_step["400"][0], "paper_seconds": by_step["400"][1], "paper_by_step": by_step}


PARTS: dict[str, Any] = {
    "heads": heads,
    "steps": steps,
    "savings": savings,
    "memory": memory,
    "cuts": cuts,
    "growth": growth,
    "busy": busy,
    "speed": speed,
    "accuracy": accuracy,
}
CHILDREN: dict[str, Any] = {
    "plain": run_plain,
    "ours": run_ours,
    "cuts": run_cuts,
    "step": run_step,
    "speed": run_speed,
    "accuracy": run_accuracy,
}

if __name__ == "__main__":
    main()
