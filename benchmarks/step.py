"""What a training pass costs, and what each saving is worth: ratios within one run.

    python benchmarks/step.py

Forward and backward of 64 random images through efficientnet_lite0 with FiLM: as timm builds it, with frozen
norms folded, with freed memory kept; at 128 and 224 pixels; and three episodes of ProtoNets and LDA with and
without denormal numbers. Writes benchmarks/results/step.md. Takes about two minutes on two quiet cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from filmtransfer.backbones import load_backbone
from filmtransfer.data import load, resize
from filmtransfer.data.sample import sample_drawings
from filmtransfer.episodes import episodes
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel
from filmtransfer.training.gradient import accumulate
from filmtransfer.training.process import denormals_as_zero, keep_freed_memory

RESULTS = Path(__file__).parent / "results"
IMAGES = 64


def main() -> None:
    plain, folded = (
        AdaptedModel(load_backbone("efficientnet_lite0", fold=f), make_head("lda")) for f in (False, True)
    )
    rows: list[tuple[str, float]] = [
        ("training pass, 128 px, as timm builds it", training(plain, 128)),
        ("training pass, 128 px, frozen norms folded", training(folded, 128)),
    ]
    keep_freed_memory()
    rows += [
        ("training pass, 128 px, folded, freed memory kept", training(folded, 128)),
        ("training pass, 224 px, folded, freed memory kept", training(folded, 224)),
        ("prediction, 128 px", prediction(folded, 128)),
        ("prediction, 224 px", prediction(folded, 224)),
    ]
    lines = ["| work on 64 images | images a second | against the first |", "|---|---|---|"]
    lines += [f"| {name} | {rate:.0f} | {rate / rows[0][1]:.2f} |" for name, rate in rows]
    learn = load(sample_drawings(10, 0)[0], folded.pixels)
    pixels = resize(learn.pixels, 128)
    times = {}
    for head in ("lda", "protonets"):
        times[head] = three_episodes(head, pixels, learn.labels)
        with denormals_as_zero():
            times[f"{head}, denormals as zero"] = three_episodes(head, pixels, learn.labels)
    lines += ["", "Three episodes, seconds: " + ", ".join(f"{k} {v:.1f}" for k, v in times.items()) + "."]
    lines.append(f"torch threads: {torch.get_num_threads()}.")
    text = "\n".join(lines) + "\n"
    (RESULTS / "step.md").write_text(text)
    print(text)


def training(model: AdaptedModel, size: int) -> float:
    pixels = torch.randint(0, 256, (IMAGES, 3, size, size), dtype=torch.uint8)
    return rate(lambda: model.embed(pixels).sum().backward())


@torch.no_grad()
def prediction(model: AdaptedModel, size: int) -> float:
    pixels = torch.randint(0, 256, (IMAGES, 3, size, size), dtype=torch.uint8)
    return rate(lambda: model.features(pixels))


def rate(work: Callable[[], object], repeats: int = 5) -> float:
    work()
    began = time.monotonic()
    for _ in range(repeats):
        work()
    return IMAGES * repeats / (time.monotonic() - began)


def three_episodes(head: str, pixels: torch.Tensor, labels: torch.Tensor) -> float:
    model = AdaptedModel(load_backbone("efficientnet_lite0"), make_head(head), 128)
    tasks = episodes(labels, "resplit", 100, 0)
    began = time.monotonic()
    for _ in range(3):
        accumulate(lambda i: model.embed(pixels[i]), model.head, next(tasks), 64)
    return time.monotonic() - began


if __name__ == "__main__":
    main()
