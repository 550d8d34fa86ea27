"""Compare the paper's observations about few-shot transfer with our results at the size of two cores.

    python benchmarks/observations.py

Reads benchmarks/results/{few_shot_small,splits_small,curves_small}/results.jsonl (from the recipes of the same
names) and writes benchmarks/results/observations.md. A comparison counts cells (a dataset at a number of shots); a cell is
the mean over seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from filmtransfer.bench.recipe import load_recipe
from filmtransfer.bench.results import read_results
from filmtransfer.bench.rows import Row
from filmtransfer.bench.sweep import collect_rows
from filmtransfer.training.assess.evaluation import mean_interval

RESULTS = Path(__file__).parent / "results"
Cells = dict[tuple[str, Any], float]


def rows_of(recipe: str) -> list[Row]:
    """Return the stored rows of a recipe."""
    return collect_rows(load_recipe(recipe).runs(), read_results(RESULTS / recipe / "results.jsonl")).rows


def cells(rows: list[Row], **settings: Any) -> Cells:
    """Return the mean accuracy in percent by dataset and shots of the rows with these settings."""
    accuracies: dict[tuple[str, Any], list[float]] = {}
    for row in rows:
        s = row["settings"]
        if all(s.get(k) == v for k, v in settings.items()):
            accuracies.setdefault((s["dataset"], s.get("shots")), []).append(100 * row["result"]["accuracy"])
    return {cell: sum(v) / len(v) for cell, v in accuracies.items()}


def against(a: Cells, b: Cells, keep: Callable[[tuple[str, Any]], bool] = lambda _: True) -> str:
    """Return in how many cells a is ahead of b, and the mean difference with its 95% interval over cells."""
    shared = [cell for cell in a if cell in b and keep(cell)]
    ahead = [a[cell] - b[cell] for cell in shared]
    mean, half = mean_interval(ahead)
    return f"ahead in {sum(d > 0 for d in ahead)} of {len(ahead)} cells, {mean:+.1f} ± {half:.1f} points"


def few_shot(rows: list[Row]) -> list[tuple[str, str]]:
    """Compare FiT with full fine-tuning from the solved head (Linear-All), which represents BiT."""
    by = {name: cells(rows, method=name) for name in dict.fromkeys(r["settings"]["method"] for r in rows)}
    parameters: dict[str, dict[Any, int]] = {}
    for row in rows:
        s = row["settings"]
        parameters.setdefault(s["method"], {})[s["dataset"]] = row["result"]["numbers"]
    lda, protonets, frozen = by["FiT-LDA"], by["FiT-ProtoNets"], by["Linear-None"]
    observations = [
        ("(ours) FiT-LDA against a linear head on the frozen backbone", against(lda, frozen)),
        ("(ours) … from 2 shots on, where FiT fine-tunes at all", against(lda, frozen, lambda p: p[1] > 1)),
    ]
    if full := by.get("Linear-All"):
        ratio = [parameters["Linear-All"][k] / parameters["FiT-LDA"][k] for k in parameters["FiT-LDA"]]
        observations += [
            ("For ≤ 10 shots FiT-LDA outperforms BiT, often by a large margin", against(lda, full)),
            (
                "… with more than 100 times fewer updateable parameters",
                f"{min(ratio):.0f} to {max(ratio):.0f} times fewer (a smaller backbone than BiT's, as many classes)",
            ),
            ("FiT-ProtoNets often betters BiT", against(protonets, full)),
            ("(ours) full fine-tuning against the solved head it starts from", against(full, frozen)),
        ]
    observations.append(("FiT-ProtoNets is slightly below FiT-LDA", f"LDA {against(lda, protonets)}"))
    return observations


def splits(rows: list[Row]) -> list[tuple[str, str]]:
    """Compare the episode splits over all heads."""

    def by_split(split: str) -> Cells:
        merged: Cells = {}
        for method in {r["settings"]["method"] for r in rows}:
            own = cells(rows, method=method, split=split)
            merged |= {(f"{method} {dataset}", shots): value for (dataset, shots), value in own.items()}
        return merged

    every = {name: by_split(name) for name in ("no_split", "split", "use_all", "resplit")}
    worst = sum(
        every["use_all"][p] < min(every[s][p] for s in ("no_split", "split")) for p in every["use_all"]
    )
    return [
        (
            "Use All is consistently the worst",
            f"below No Split and Split in {worst} of {len(every['use_all'])} cells",
        ),
        (
            "Split outperforms No Split or achieves the same",
            f"Split {against(every['split'], every['no_split'])}",
        ),
        ("(ours) Resplit against Split", against(every["resplit"], every["split"])),
    ]


def curves(rows: list[Row]) -> list[tuple[str, str]]:
    """Return the steps until 90% of the gain from the first to the best accuracy, of the mean over seeds."""
    texts = []
    for name in dict.fromkeys(r["settings"]["dataset"] for r in rows):
        for method in dict.fromkeys(r["settings"]["method"] for r in rows):
            lines = [
                r["result"]["curve"]
                for r in rows
                if (r["settings"]["dataset"], r["settings"]["method"]) == (name, method)
            ]
            line = [(step, sum(c[i][1] for c in lines) / len(lines)) for i, (step, _) in enumerate(lines[0])]
            goal = line[0][1] + 0.9 * (max(a for _, a in line) - line[0][1])
            first = next(step for step, a in line if a >= goal)
            texts.append(
                f"{name} {method}: {100 * max(a for _, a in line):.1f}% at best, near it from step {first}"
            )
    return [("FiT-LDA converges more quickly than BiT", "; ".join(texts))]


def main() -> None:
    observations: list[tuple[str, str]] = []
    for recipe, observe in (("few_shot_small", few_shot), ("splits_small", splits), ("curves_small", curves)):
        if rows := rows_of(recipe):
            observations += observe(rows)
    text = "| the paper's observation | here |\n|---|---|\n"
    text += "".join(f"| {claim} | {result} |\n" for claim, result in observations)
    (RESULTS / "observations.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
