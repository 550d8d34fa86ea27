"""Compare FiT with standard methods at 10 shots on real images with efficientnet_lite0.

    make accuracy        (python benchmarks/accuracy.py --data ../shared/data)

For each dataset and seed: the heads on frozen features and after fine-tuning with the fast preset; scikit-learn's logistic
regression and shrinkage LDA on the frozen features; and full fine-tuning of all weights from a logistic-regression head
(Adam, cosine decay, 40 batches of 32 at 128 pixels, the head refitted at 224; the better of two learning rates by TEST
accuracy, which favours it). For FiT-LDA also the accuracy at each interpolation factor, to see how often the best one was
chosen. Writes benchmarks/results/accuracy.jsonl and accuracy.md; stored runs are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from few_shot_tasks import Task, load_tensors, task
from filmtransfer.backbones import load_backbone
from filmtransfer.episodes import hold_out
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Body
from filmtransfer.model.tensors import resize
from filmtransfer.seeding import make_generator
from filmtransfer.training.adapt import adapt
from filmtransfer.training.assess.evaluation import mean_interval
from filmtransfer.training.baselines.batch import CosineSchedule, train_batches
from filmtransfer.training.finetune.activations import Activations
from filmtransfer.training.finetune.episodic import finetune
from filmtransfer.training.finetune.interpolation import ALPHAS, choose_alpha, interpolate, snapshot
from filmtransfer.training.presets import preset
from filmtransfer.training.torch_settings import keep_freed_memory

RESULTS = Path(__file__).parent / "results"
FILE = RESULTS / "accuracy.jsonl"
SETS = ("cifar10", "oxford_pets", "eurosat", "quickdraw", "svhn")
METHODS = {
    "logistic regression": "logistic",
    "scikit-learn LDA": "sklearn_lda",
    "ProtoNets, frozen": "protonets_frozen",
    "LDA, frozen": "lda_frozen",
    "QDA, frozen": "qda_frozen",
    "full fine-tuning": "full",
    "FiT-ProtoNets": "protonets",
    "FiT-LDA": "lda",
    "FiT-QDA": "qda",
}
FULL_STEPS, FULL_RATES, FULL_SIZE = 40, (1e-4, 4e-4), 128


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--shots", type=int, default=10)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--test", type=int, default=300)
    options.add_argument("--reverse", action="store_true", help="from the end: for a second process")
    args = options.parse_args()
    keep_freed_memory()
    settings = {"shots": args.shots, "test": args.test}
    wanted = [(seed, name) for seed in range(args.seeds) for name in SETS]
    for seed, name in reversed(wanted) if args.reverse else wanted:
        old = next((r for r in read(settings) if (r["seed"], r["set"]) == (seed, name)), None)
        if old is None or old.get("fast") != preset("fast").to_dict():
            row = settings | run(task(args.data, name, args.shots, seed, args.test), seed, old)
            with FILE.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)
    runs = [r for r in read(settings) if r.get("fast") == preset("fast").to_dict()]
    if len(runs) < len(wanted):
        return  # another process computes the rest
    (RESULTS / "accuracy.md").write_text(table(runs))
    print(table(runs))


def read(settings: dict[str, int]) -> list[dict[str, Any]]:
    """Return the stored runs with these settings, each once; several processes may append to the file."""
    lines = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
    runs = {(r["seed"], SETS.index(r["set"])): r for r in lines if settings.items() <= r.items()}
    return [runs[key] for key in sorted(runs)]


def run(few: Task, seed: int, old: dict[str, Any] | None) -> dict[str, Any]:
    """Measure all methods on one task; keep what an old row with another fast preset measured independently of it."""
    settings = preset("fast").resolve(load_backbone("efficientnet_lite0"))
    row: dict[str, Any] = {"set": few.name, "seed": seed, "seconds": {}, "fast": preset("fast").to_dict()}

    def model_with(head: str, fold: bool = True) -> AdaptedModel:
        return AdaptedModel(
            load_backbone("efficientnet_lite0", fold=fold),
            make_head(head),
            settings.image_size,
            body=Body(film_from=settings.film_from or 0) if fold else Body("all"),
        )

    frozen = model_with("lda")
    learn, held_out = load_tensors(few.learn, frozen.pixels), load_tensors(few.held_out, frozen.pixels)
    small = resize(learn.pixels, settings.train_size or settings.image_size)
    full_size = resize(learn.pixels, FULL_SIZE)
    z, z_test = frozen.features(learn.pixels), frozen.features(held_out.pixels)
    y, y_test = learn.labels, held_out.labels

    def accuracy(model: AdaptedModel, features: torch.Tensor | None = None) -> float:
        features = model.features(held_out.pixels) if features is None else features
        with torch.no_grad():
            return float((model.head.logits(features).argmax(1) == y_test).float().mean())

    for name, classifier in (
        ("logistic", LogisticRegression(max_iter=2000)),
        ("sklearn_lda", LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")),
    ):
        row[name] = float(classifier.fit(z.numpy(), y.numpy()).score(z_test.numpy(), y_test.numpy()))
    for head in ("protonets", "lda", "qda"):
        frozen.head = make_head(head)
        frozen.build_head(z, y)
        row[f"{head}_frozen"] = accuracy(frozen, z_test)

    for head in ("protonets", "qda"):
        model = model_with(head)
        began = time.monotonic()
        adapted = adapt(model, learn.pixels, small, y, settings, seed=seed)
        row["seconds"][head] = round(time.monotonic() - began, 1)
        row[head] = accuracy(model)
        row[f"{head}_share"] = adapted.alpha
    # LDA with the same steps as in ``adapt``, but evaluated on the held-out images at every interpolation factor.
    model = model_with("lda")
    began = time.monotonic()
    fit, held = hold_out(y, settings.hold_out, make_generator(seed, "hold out"))
    start = snapshot(model)
    finetune(model, Activations(model, small[fit], settings.cache_mb), y[fit], settings, seed=seed)
    end = snapshot(model)
    choice = choose_alpha(
        model, start, end, Activations(model, learn.pixels, settings.cache_mb), y, fit, held
    )
    row["seconds"]["lda"] = round(time.monotonic() - began, 1)
    row["lda_share"], row["lda_at"] = choice.alpha, {}
    row["lda_scores"] = {str(alpha): score for alpha, score in choice.scores.items()}
    for alpha in ALPHAS:
        interpolate(model, start, end, alpha)
        model.configure(learn.pixels, y)
        row["lda_at"][str(alpha)] = accuracy(model)
    row["lda"] = row["lda_at"][str(choice.alpha)]
    if old is not None:
        row["full"], row["seconds"]["full"] = old["full"], old["seconds"]["full"]
        return row
    row["full"] = 0.0
    for rate in FULL_RATES:
        model = model_with("linear", fold=False)
        began = time.monotonic()
        train_batches(
            model, Activations(model, full_size, 0), y, CosineSchedule(FULL_STEPS, rate), settings, seed=seed
        )
        model.configure(learn.pixels, y)
        row["seconds"]["full"] = round(time.monotonic() - began, 1)
        row["full"] = max(row["full"], accuracy(model))
    return row


def table(runs: list[dict[str, Any]]) -> str:
    """Return a table of the mean accuracy in percent ± 95% interval over seeds."""
    sets = [s for s in SETS if any(r["set"] == s for r in runs)]
    lines = ["| method | " + " | ".join(sets) + " | mean |", "|---|" + "---|" * (len(sets) + 1)]
    for label, key in METHODS.items():
        cells, means = [], []
        for name in sets:
            mean, half = mean_interval([100 * r[key] for r in runs if r["set"] == name])
            cells.append(f"{mean:.1f} ± {half:.1f}")
            means.append(mean)
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {fmean(means):.1f} |")
    best = [max(r["lda_at"].values()) for r in runs]
    took = [r["lda"] for r in runs]
    safe = sum(r["lda"] >= r["lda_at"]["0.0"] for r in runs)
    highest = [r["lda_at"][max(r["lda_scores"], key=r["lda_scores"].get)] for r in runs]
    by_rule = {f"always {s}": fmean(r["lda_at"][str(s)] for r in runs) for s in ALPHAS}
    by_rule |= {"highest score": fmean(highest), "as chosen": fmean(took), "best by test": fmean(best)}
    lines += [
        "",
        f"Interpolation factor (FiT-LDA, {len(runs)} runs): the best point was chosen in "
        f"{sum(t == b for t, b in zip(took, best, strict=True))}, and in {safe} the result was at least the frozen "
        "one. Mean accuracy: " + ", ".join(f"{k} {100 * v:.1f}" for k, v in by_rule.items()) + ".",
        "",
        "Seconds to train (mean): "
        + ", ".join(
            f"{k} {fmean(r['seconds'][k] for r in runs):.0f}" for k in ("protonets", "lda", "qda", "full")
        )
        + ".",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
