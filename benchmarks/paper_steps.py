"""What the paper's 400 steps would add to the fast preset's 30: FiT-LDA, 10 shots, seed 0.

    python benchmarks/paper_steps.py --data ../shared/data --set svhn

The paper's fixed split, all of the way, but at the fast preset's image sizes (fine-tuning at 128 pixels, head at
224), since 400 steps at 384 pixels take hours on two cores. The tasks are those of accuracy.py, whose numbers for
the fast preset stand beside. Adds a line to benchmarks/results/paper_steps.jsonl for every set.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from accuracy import read
from filmtransfer.backbones import load_backbone
from filmtransfer.data import load, resize
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.training.finetune import finetune
from filmtransfer.training.loop import Progress
from filmtransfer.training.presets import preset
from filmtransfer.training.process import keep_freed_memory
from sets import task

RESULTS = Path(__file__).parent / "results"
LOOK = (30, 100, 200, 300, 400)


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--set", required=True)
    args = options.parse_args()
    keep_freed_memory()
    where = task(args.data, args.set, 10, 0, 300)
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head("lda"), 224)
    learn, held_out = load(where.learn, model.pixels), load(where.held_out, model.pixels)
    seen: dict[int, float] = {}
    spent: dict[int, float] = {}
    began, looking = time.monotonic(), 0.0

    def look(progress: Progress) -> None:
        nonlocal looking
        if progress.step in LOOK:
            start = time.monotonic()
            spent[progress.step] = round(start - began - looking, 1)
            model.configure(learn.pixels, learn.labels)
            right = model.logits(held_out.pixels).argmax(1) == held_out.labels
            seen[progress.step] = round(float(right.float().mean()), 4)
            looking += time.monotonic() - start
            print(progress.step, seen[progress.step], spent[progress.step], flush=True)

    finetune(model, resize(learn.pixels, 128), learn.labels, preset("paper"), seed=0, watch=look)
    fast = next(r for r in read({"shots": 10, "test": 300}) if (r["set"], r["seed"]) == (args.set, 0))
    row = {
        "set": args.set,
        "frozen": fast["lda_frozen"],
        "fast": fast["lda"],
        "fast_seconds": fast["seconds"]["lda"],
        "paper_by_step": seen,
        "paper_seconds_by_step": spent,
    }
    with (RESULTS / "paper_steps.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    print(json.dumps(row))


if __name__ == "__main__":
    main()
