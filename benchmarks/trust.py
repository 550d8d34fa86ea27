"""Measure OOD rejection, calibration, the accuracy estimate without a test set, and the time of edits.

    python benchmarks/trust.py --data ../shared/data

For each dataset and seed up to 16 classes are drawn; 70% of them are trained on with 10 images each, the others are
near-OOD images, and images of all other datasets are far-OOD images. Every run is a line of results/trust.jsonl (runs in
that file are not repeated), the tables are results/trust.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from few_shot_tasks import read_dataset
from filmtransfer import FewShotClassifier
from filmtransfer.arrays import unit_rows
from filmtransfer.heads import HeadName
from filmtransfer.model import log_posterior
from filmtransfer.model.ood import FALSE_ALARM, largest_cosine
from filmtransfer.training.assess.calibration import calibration_error, log_loss
from filmtransfer.training.assess.evaluation import mean_interval
from filmtransfer.training.torch_settings import configure_process

SETS = ("cifar10", "eurosat", "oxford_pets", "dtd10", "flowers102", "svhn", "fashion_mnist", "quickdraw")
CLASSES, TRAINED, SHOTS = 16, 0.7, 10
RESULTS = Path(__file__).parent / "results"


def draw(
    data: Any, part: int, classes: Sequence[int] | np.ndarray, each: int, rng: np.random.Generator
) -> Any:
    """Draw up to ``each`` images of each class, and return them with the indices of their classes."""
    images, labels = data[part]
    chosen = [i for c in classes for i in rng.permutation(np.flatnonzero(labels == c))[:each]]
    return [images[i] for i in chosen], [list(classes).index(labels[i]) for i in chosen]


def run(sets: dict[str, Any], name: str, head: HeadName, seed: int) -> dict[str, Any]:
    """Train one classifier and take all measurements."""
    rng = np.random.default_rng([seed, SETS.index(name)])
    drawn = rng.permutation(len(sets[name][2]))[:CLASSES]
    trained = max(2, round(TRAINED * len(drawn)))
    classes, others = np.sort(drawn[:trained]), drawn[trained:]
    images, labels = draw(sets[name], 0, classes, SHOTS, rng)
    tests, indices = draw(sets[name], 1, classes, 30, rng)
    near, _ = draw(sets[name], 1, others, 40, rng)
    far = [
        image
        for other in SETS
        if other != name
        for image in draw(sets[other], 1, range(min(10, len(sets[other][2]))), 3, rng)[0]
    ]
    clf = FewShotClassifier(head=head, seed=seed, device="cpu")
    start = time.monotonic()
    clf.fit(images, labels)
    seconds = time.monotonic() - start
    known, nearer, further = (clf.classify(part) for part in (tests, near, far))
    test_labels, update = np.array(indices), clf.update_
    head_logits = [part.predictions.logits for part in (known, nearer, further)]
    before, after = (np.exp(log_posterior(head_logits[0], temperature=t)) for t in (1.0, update.temperature))
    assert update.ood is not None
    towards = unit_rows(update.ood.directions.astype(np.float32))
    scores = {
        "both": [clf.predictor_.ood_scores(part.predictions) for part in (known, nearer, further)],
        "direction": [
            largest_cosine(towards, part.predictions.features) for part in (known, nearer, further)
        ],
        "density": [logits.max(1) for logits in head_logits],
        "softmax": [np.exp(log_posterior(logits)).max(1) for logits in head_logits],
    }
    estimate = update.results["estimate"]
    accuracy = float((after.argmax(1) == test_labels).mean())
    return {
        "set": name, "head": head, "seed": seed, "classes": int(trained), "seconds": round(seconds, 1),
        "auroc": {k: [_auroc(s[0], s[1]), _auroc(s[0], s[2])] for k, s in scores.items()},
        "coverage": {k: _coverage(s[0], (after.argmax(1) == test_labels), s[1]) for k, s in scores.items()},
        "rejected": [float(clf.rejected(part, FALSE_ALARM).mean()) for part in (known, nearer, further)],
        "ece": [calibration_error(before, test_labels), calibration_error(after, test_labels)],
        "log_loss": [log_loss(log_posterior(head_logits[0], temperature=t), test_labels) for t in (1.0, update.temperature)],
        "temperature": update.temperature,
        "accuracy": accuracy, "images": len(test_labels), "estimate": estimate,
        "inside": estimate["low"] <= accuracy <= estimate["high"],
        "edits": _edits(clf, images, labels, near),
    }  # fmt: skip


def _auroc(known: np.ndarray, ood: np.ndarray) -> float:
    in_distribution = [1] * len(known) + [0] * len(ood)
    return float(roc_auc_score(in_distribution, np.concatenate([known, ood])))


def _coverage(known: np.ndarray, correct: np.ndarray, ood: np.ndarray) -> dict[str, float]:
    """Compute the accuracy when only a share of the images with the highest scores is classified (OOD ones are never correct)."""
    scores = np.concatenate([known, ood])
    correct = np.concatenate([correct.astype(float), np.zeros(len(ood))])
    order = np.argsort(-scores, kind="stable")
    return {
        str(share): float(correct[order[: round(share * len(order))]].mean())
        for share in (0.25, 0.5, 0.75, 1.0)
    }


def _edits(clf: FewShotClassifier, images: list[Any], labels: list[int], near: list[Any]) -> dict[str, float]:
    """Measure the milliseconds of each edit on a copy."""
    milliseconds = {}
    edits: dict[str, Callable[[FewShotClassifier], object]] = {
        "forget": lambda c: c.forget(images[:1]),
        "remove": lambda c: c.remove_class(labels[0]),
        "merge": lambda c: c.merge_classes([labels[0], labels[-1]], labels[0]),
        "rename": lambda c: c.rename_class(labels[0], "new"),
        "add": lambda c: c.add(near[:3], labels[0]),
    }
    for name, act in edits.items():
        if name == "remove" and len(clf.update_.classes) < 3:
            continue
        update, head, prior = clf.update_, clf.model_.head, clf.prior
        start = time.perf_counter()
        act(clf)
        milliseconds[name] = 1000 * (time.perf_counter() - start)
        clf.model_.head, clf.prior = head, prior
        clf._take(update, clf.model_)
    return milliseconds


def table(rows: list[dict[str, Any]]) -> str:
    """Return the tables of docs/trust.md."""
    heads = list(dict.fromkeys(row["head"] for row in rows))
    kinds = {
        "softmax": "maximum softmax probability",
        "density": "the head's density (largest logit)",
        "direction": "direction of the features",
        "both": "direction and density (ours)",
    }

    def mean(values: list[float]) -> str:
        middle, spread = mean_interval([100 * v for v in values])
        return f"{middle:.1f} ± {spread:.1f}"

    lines = [
        "| AUROC, percent | runs | near-OOD (same set) | far-OOD (other sets) | accuracy at 50% coverage |",
        "|---|---|---|---|---|",
    ]
    for head in heads:
        these = [row for row in rows if row["head"] == head]
        for kind, description in kinds.items():
            near, far = ([row["auroc"][kind][i] for row in these] for i in (0, 1))
            half = [row["coverage"][kind]["0.5"] for row in these]
            lines.append(
                f"| {head}: {description} | {len(these)} | {mean(near)} | {mean(far)} | {mean(half)} |"
            )
    lines += [
        "",
        f"| at a stated false-alarm rate of {FALSE_ALARM:.0%} | in-distribution images rejected | near-OOD rejected | far-OOD rejected |",
        "|---|---|---|---|",
    ]
    for head in heads:
        these = [row for row in rows if row["head"] == head]
        lines.append(
            f"| {head} | " + " | ".join(mean([row["rejected"][i] for row in these]) for i in range(3)) + " |"
        )
    lines += [
        "",
        "| probabilities | ECE before, percent | after | log-loss before | after | temperatures |",
        "|---|---|---|---|---|---|",
    ]
    for head in heads:
        these = [row for row in rows if row["head"] == head]
        heat = sorted(row["temperature"] for row in these)
        figures = [mean([row["ece"][i] for row in these]) for i in (0, 1)]
        figures += [f"{np.mean([row['log_loss'][i] for row in these]):.3f}" for i in (0, 1)]
        lines.append(f"| {head} | " + " | ".join(figures) + f" | {heat[0]:.2f} to {heat[-1]:.2f} |")
    lines += [
        "",
        "| estimate without a test set | runs | test accuracy inside its 95% interval | mean estimate | mean test accuracy | mean width of the interval |",
        "|---|---|---|---|---|---|",
    ]
    for head in heads:
        these = [row for row in rows if row["head"] == head]
        width = np.mean([row["estimate"]["high"] - row["estimate"]["low"] for row in these])
        estimate, accuracy = (
            np.mean([row["estimate"]["accuracy"] for row in these]),
            np.mean([row["accuracy"] for row in these]),
        )
        lines.append(
            f"| {head} | {len(these)} | {sum(row['inside'] for row in these)} | {100 * estimate:.1f} | {100 * accuracy:.1f} | {100 * width:.1f} |"
        )
    names = ("add", "forget", "remove", "merge", "rename")
    lines += [
        "",
        "| edits, median ms | " + " | ".join(names) + " | training, median s |",
        "|---|" + "---|" * 6,
    ]
    for head in heads:
        these = [row for row in rows if row["head"] == head]
        cells = [f"{np.median([row['edits'][n] for row in these if n in row['edits']]):.1f}" for n in names]
        lines.append(
            f"| {head} | " + " | ".join(cells) + f" | {np.median([row['seconds'] for row in these]):.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--heads", nargs="+", default=["lda"])
    chosen = parser.parse_args()
    configure_process(1)
    warnings.simplefilter("ignore")
    file = RESULTS / "trust.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {(row["set"], row["head"], row["seed"]) for row in rows}
    sets = {name: read_dataset(chosen.data, name) for name in SETS}
    for seed in chosen.seeds:
        for head in chosen.heads:
            for name in SETS:
                if (name, head, seed) in done:
                    continue
                row = run(sets, name, head, seed)
                rows.append(row)
                with file.open("a") as lines:
                    lines.write(json.dumps(row) + "\n")
                print(name, head, seed, row["auroc"]["both"], row["inside"], flush=True)
    (RESULTS / "trust.md").write_text(table(rows))


if __name__ == "__main__":
    main()
