"""Measure accuracy and time of FiLM from a given stage of the backbone on.

    python benchmarks/film_from.py --data ../shared/data

FiT-LDA on efficientnet_lite0 with the fast preset except for two settings: the stage at which FiLM begins (activations
below it are cached), and the image size of fine-tuning, since fewer stages make larger images affordable. 10 shots, the
head at 224 pixels, the tasks of accuracy.py. Stored runs are not repeated; a second process with --reverse begins at the
end. Writes benchmarks/results/film_from.jsonl and .md.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

from few_shot_tasks import ImageTensors, Task, load_tensors, task
from filmtransfer.backbones import backbone_facts, load_backbone
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body
from filmtransfer.model.tensors import resize
from filmtransfer.training.adapt import adapt
from filmtransfer.training.assess.evaluation import mean_interval
from filmtransfer.training.callbacks import Callbacks
from filmtransfer.training.presets import preset
from filmtransfer.training.profiler import Profiler
from filmtransfer.training.torch_settings import keep_freed_memory

RESULTS = Path(__file__).parent / "results"
FILE = RESULTS / "film_from.jsonl"
SETS = ("cifar10", "eurosat", "svhn", "oxford_pets", "quickdraw")
BACKBONE = "efficientnet_lite0"
# (image size of fine-tuning, first stage with FiLM)
CUTS = [*((128, k) for k in (0, 2, 3, 5, 6, 7, 8)), (160, 3), (224, 6)]


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--test", type=int, default=300)
    options.add_argument("--reverse", action="store_true", help="from the end: for a second process")
    args = options.parse_args()
    keep_freed_memory()
    tasks = [(seed, name) for seed in range(args.seeds) for name in SETS]
    for seed, name in reversed(tasks) if args.reverse else tasks:
        missing = [cut for cut in CUTS if (seed, name, *cut) not in {_key(r) for r in read()}]
        if missing:
            for row in runs(task(args.data, name, 10, seed, args.test), seed, missing):
                with FILE.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    rows = read()
    if len(rows) >= len(tasks) * len(CUTS):
        (RESULTS / "film_from.md").write_text(table(rows))
        print(table(rows))


def read() -> list[dict[str, Any]]:
    """Return the stored runs, each once."""
    lines = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
    rows = {_key(row): row for row in lines}
    return [rows[key] for key in sorted(rows) if key[2:] in CUTS]


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["seed"], row["set"], row["size"], row["film_from"]


def runs(few: Task, seed: int, cuts: list[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Fine-tune with each image size and first stage of FiLM."""
    backbone = load_backbone(BACKBONE)
    frozen_model = AdaptedModel(backbone, make_head("lda"), preset("fast").image_size)
    learn, held_out = (
        load_tensors(few.learn, frozen_model.pixels),
        load_tensors(few.held_out, frozen_model.pixels),
    )
    frozen_model.configure(learn.pixels, learn.labels)
    frozen = accuracy(frozen_model, held_out)
    for size, stage in cuts:
        model = AdaptedModel(backbone, make_head("lda"), frozen_model.pixels.size, body=Body(film_from=stage))
        profiler, began = Profiler(), time.monotonic()
        adapted = adapt(
            model,
            learn.pixels,
            resize(learn.pixels, size),
            learn.labels,
            preset("fast").override(film_from=stage),
            seed=seed,
            callbacks=Callbacks(profiler=profiler),
        )
        yield {
            "set": few.name,
            "seed": seed,
            "size": size,
            "film_from": stage,
            "accuracy": accuracy(model, held_out),
            "frozen": frozen,
            "share": adapted.alpha,
            "seconds": round(time.monotonic() - began, 2),
            "step_seconds": round(profiler.to_dict()["step_seconds"], 4),
        }


def accuracy(model: AdaptedModel, held_out: ImageTensors) -> float:
    return float((model.logits(held_out.pixels).argmax(1) == held_out.labels).float().mean())


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table of accuracy, its paired difference to FiLM in all stages, and the time of the same runs."""
    facts = backbone_facts(BACKBONE)
    base = {(r["seed"], r["set"]): r for r in rows if (r["size"], r["film_from"]) == (128, 0)}
    lines = [
        "| fine-tuning | FiLM from | parameters | "
        + " | ".join(SETS)
        + " | mean | against all stages | a step | training |",
        "|---|---|---|" + "---|" * (len(SETS) + 4),
        "| none (frozen) | | 0 | "
        + " | ".join(f"{100 * fmean(r['frozen'] for r in base.values() if r['set'] == s):.1f}" for s in SETS)
        + f" | {100 * fmean(r['frozen'] for r in base.values()):.1f} | | | |",
    ]
    for size, stage in CUTS:
        chosen = [r for r in rows if (r["size"], r["film_from"]) == (size, stage)]
        gaps = [100 * (r["accuracy"] - base[r["seed"], r["set"]]["accuracy"]) for r in chosen]
        gap, half = mean_interval(gaps)
        steps, total = (
            fmean(base[r["seed"], r["set"]][k] / r[k] for r in chosen) for k in ("step_seconds", "seconds")
        )
        lines.append(
            f"| {size} px | {stage} {facts.stages[stage].name} | {facts.film_parameters_from(stage):,} | "
            + " | ".join(f"{100 * fmean(r['accuracy'] for r in chosen if r['set'] == s):.1f}" for s in SETS)
            + f" | {100 * fmean(r['accuracy'] for r in chosen):.1f} | "
            + ("" if (size, stage) == (128, 0) else f"{gap:+.1f} ± {half:.1f}")
            + f" | {steps:.1f}× | {total:.1f}× |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
