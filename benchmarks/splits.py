"""Compare ``resplit`` (ours, which draws new halves at every step) with the paper's fixed ``split``.

    python benchmarks/splits.py --data ../shared/data

FiT-LDA on efficientnet_lite0 with the fast preset's image sizes and learning rate, for datasets × shots × seeds; accuracy on
held-out images with the interpolation factors α = 1 and α = 0.5 (see docs/presets.md). Writes benchmarks/results/splits.json
and splits.md; stored runs are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from few_shot_tasks import load_tensors, task
from filmtransfer import film
from filmtransfer.backbones import load_backbone
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.model.tensors import resize
from filmtransfer.training.assess.evaluation import mean_interval
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.episodic import finetune
from filmtransfer.training.finetune.interpolation import interpolate, snapshot
from filmtransfer.training.presets import preset
from filmtransfer.training.torch_settings import keep_freed_memory

RESULTS = Path(__file__).parent / "results"
SETS = ("cifar10", "eurosat", "svhn", "oxford_pets", "quickdraw")


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--test", type=int, default=200)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--shots", type=int, nargs="+", default=[2, 5, 10])
    args = options.parse_args()
    keep_freed_memory()
    file = RESULTS / "splits.json"
    runs = json.loads(file.read_text()) if file.exists() else []
    done = {(r["set"], r["shots"], r["seed"]) for r in runs}
    for seed in range(args.seeds):
        for shots in args.shots:
            for name in SETS:
                if (name, shots, seed) not in done:
                    runs.append(run(args, name, shots, seed))
                    file.write_text(json.dumps(runs, indent=1) + "\n")
                    print(json.dumps(runs[-1]), flush=True)
    (RESULTS / "splits.md").write_text(table(runs))
    print(table(runs))


def run(args: argparse.Namespace, name: str, shots: int, seed: int) -> dict[str, Any]:
    """Fine-tune with both splits on one task."""
    settings = preset("fast").override(train_size=128, film_from=0)
    few = task(args.data, name, shots, seed, args.test)
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), settings.image_size)
    learn, held_out = load_tensors(few.learn, model.pixels), load_tensors(few.held_out, model.pixels)
    small = resize(learn.pixels, settings.train_size or settings.image_size)
    start = snapshot(model)
    row: dict[str, Any] = {"set": name, "shots": shots, "seed": seed, "steps": settings.steps}

    def accuracy() -> float:
        model.configure(learn.pixels, learn.labels)
        return float((model.logits(held_out.pixels).argmax(1) == held_out.labels).float().mean())

    row["frozen"] = accuracy()
    for split in ("split", "resplit"):
        interpolate(model, start, start, 0.0)
        began = time.monotonic()
        images = Activations(model, small, settings.cache_mb)
        finetune(model, images, learn.labels, settings.override(split=split), seed=seed)
        row[f"{split}_seconds"] = round(time.monotonic() - began, 1)
        end = snapshot(model)
        row[split] = accuracy()
        interpolate(model, start, end, 0.5)
        row[f"{split}_half"] = accuracy()
    film.reset(model.network)
    return row


def table(runs: list[dict[str, Any]]) -> str:
    """Return tables of means over seeds by dataset and shots, and paired differences over all runs."""
    kinds = ("frozen", "split", "resplit", "split_half", "resplit_half")
    lines = [
        "| set | shots | frozen | split | resplit | split, half | resplit, half |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, shots in sorted({(r["set"], r["shots"]) for r in runs}):
        chosen = [r for r in runs if (r["set"], r["shots"]) == (name, shots)]
        cells = ["{:.1f} ± {:.1f}".format(*mean_interval([100 * r[k] for r in chosen])) for k in kinds]
        lines.append(f"| {name} | {shots} | {' | '.join(cells)} |")
    for shots in [*sorted({r["shots"] for r in runs}), "all"]:
        chosen = [r for r in runs if shots in (r["shots"], "all")]
        cells = [f"{mean_interval([100 * r[k] for r in chosen])[0]:.1f}" for k in kinds]
        lines.append(f"| mean | {shots} | {' | '.join(cells)} |")
    lines += ["", "Paired differences over all runs (mean ± 95% interval; runs ahead, level, behind):", ""]
    for one, other in (("resplit", "split"), ("resplit_half", "split_half"), ("resplit_half", "frozen")):
        gaps = [100 * (r[one] - r[other]) for r in runs]
        ahead, behind = sum(g > 0 for g in gaps), sum(g < 0 for g in gaps)
        mean, half = mean_interval(gaps)
        lines.append(
            f"- {one} − {other}: {mean:+.1f} ± {half:.1f} points ({ahead}, {len(gaps) - ahead - behind}, {behind})"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
