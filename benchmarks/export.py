"""Measure the parity of exported graphs with torch, the loss of int8, and the speed.

    python benchmarks/export.py --data FOLDER

Every backbone of the catalogue is exported, folded and shared, at a small image size. Weights are real where the machine has
them, and elsewhere random such that the features of images differ (random_weights.py): parity does not depend on accuracy. Beside
the differences the table has that between torch in float32 and in float64: no graph can be expected to be much closer. Speeds
are ratios of medians within one run, one thread, batch of 8. int8 is measured on real images with efficientnet_lite0; its
settings were chosen on images of eurosat, which is therefore not among the datasets. Rejection is measured on held-out images
and on images of the other datasets. Stored results are not measured again.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from export_page import jpegs
from few_shot_tasks import Task, task
from filmtransfer import FewShotClassifier
from filmtransfer.backbones import (
    CATALOGUE,
    Backbone,
    assemble,
    build,
    list_backbones,
    load_backbone,
    record_for,
)
from filmtransfer.backbones.catalogue import pixel_spec
from filmtransfer.data import load
from filmtransfer.export import folded_graph, probe_images, shared_backbone, user_file
from filmtransfer.export.parity import compare, run_folded, run_shared, torch_outputs
from filmtransfer.export.quantisation import measure_loss, quantise, run_in_batches
from filmtransfer.heads import make_head
from filmtransfer.model import AdaptedModel, Update
from filmtransfer.model.tensors import normalise
from filmtransfer.runtime.parity import difference, spread
from random_weights import randomize_weights

RESULTS = Path(__file__).parent / "results"
SIZE, BATCH, ROUNDS = 64, 8, 5
SETS, INT8_SIZE = ("cifar10", "oxford_pets", "dtd10"), 128


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    torch.set_num_threads(1)
    data, file = parser.parse_args().data, RESULTS / "export.json"
    results: dict[str, Any] = {"size": SIZE, "parity": [], "int8": []}
    if file.exists():
        results = json.loads(file.read_text())
    for name in SETS:
        if name not in [row["set"] for row in results["int8"]]:
            results["int8"].append(loss(data, name))
            save(results)
    for name in SETS:
        if name not in [row["set"] for row in results.setdefault("rejection", [])]:
            results["rejection"].append(rejection(data, name))
            save(results)
    if "jpeg" not in results:
        results["jpeg"] = jpegs(data, "oxford_pets", INT8_SIZE)
        save(results)
    for name in CATALOGUE:
        if name not in [row["backbone"] for row in results["parity"]]:
            results["parity"].append(parity(name))
            save(results)


def save(results: dict[str, Any]) -> None:
    (RESULTS / "export.json").write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "export.md").write_text(page(results))
    print((results["parity"] or results["int8"])[-1], flush=True)


def parity(name: str) -> dict[str, Any]:
    """Measure the largest differences, the file sizes and the speed of one backbone."""
    backbone, weights = network(name)
    clf = classifier(backbone)
    pixels = probe_images(clf.model_.pixels.size)
    whole = folded_graph(clf)
    run = run_folded(whole)
    own, other = user_file(clf), shared_backbone(clf)
    ours, theirs = interleaved(lambda: run(pixels.numpy()), lambda: torch_outputs(clf, pixels))
    expected = torch_outputs(clf, pixels)["features"]
    return {
        "backbone": name,
        "weights": weights,
        "size": clf.model_.pixels.size,
        "spread": spread(expected),
        "rounding": difference(expected, in_float64(clf, pixels), spread(expected)),
        "folded": compare(run, clf, pixels).largest,
        "shared": compare(run_shared(other, own), clf, pixels).largest,
        "folded_bytes": len(whole),
        "shared_bytes": len(other),
        "user_bytes": len(own),
        "torch_over_onnxruntime": theirs / ours,
    }


def network(name: str) -> tuple[Backbone, str]:
    record = record_for(name)
    if any(row.usable for row in list_backbones() if row.record == record):
        return load_backbone(name), "real"
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build(record)
    seen = normalise(probe_images(SIZE, 24, seed=2), pixel_spec(record, model))
    return assemble(
        record, randomize_weights(model, seen, generator=torch.Generator().manual_seed(0))
    ), "random"


@torch.no_grad()
def in_float64(clf: FewShotClassifier, pixels: torch.Tensor) -> np.ndarray:
    """Compute the features with the same float32 parameters, but every operation in float64."""
    network = copy.deepcopy(clf.model_.network).double()
    features: np.ndarray = network(normalise(pixels, clf.model_.pixels).double()).numpy()
    return features


def classifier(backbone: Backbone, ways: int = 3) -> FewShotClassifier:
    """Build a classifier with changed FiLM parameters and an LDA head on distinguishable images."""
    model = AdaptedModel(backbone, make_head("lda"), SIZE)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.backbone_parameters().values():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    features = model.features(probe_images(model.pixels.size, 4 * ways, seed=1))
    model.build_head(features, torch.arange(4 * ways) % ways)
    update = Update.of(model, list("abc"), settings={}, results={}, seed=0, versions={})
    clf = FewShotClassifier(backbone=backbone.name)
    clf._take(update, model)
    return clf


def interleaved(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[float, float]:
    """Return the median seconds of both, measured in turns, so that a busy machine slows both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for run, seconds in zip((first, second), times, strict=True):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def float_and_int8(few: Task) -> tuple[FewShotClassifier, bytes, bytes]:
    """Return a classifier of the 10 shots, and its graph in float and in int8, calibrated on the same images."""
    clf = FewShotClassifier(steps=0, image_size=INT8_SIZE).fit_images(few.learn)
    learn, whole = load(few.learn, clf.model_.pixels).pixels, folded_graph(clf)
    batches = [{"pixels": learn[i : i + 16]} for i in range(0, min(len(learn), 128), 16)]
    return clf, whole, quantise(whole, batches)


def loss(data: Path, name: str) -> dict[str, Any]:
    """Measure int8 on held-out images."""
    few = task(data, name, 10, 0, 300)
    clf, whole, small = float_and_int8(few)
    held_out, runs = load(few.held_out, clf.model_.pixels).pixels, (run_folded(whole), run_folded(small))
    fast, slow = interleaved(lambda: runs[1](held_out[:BATCH]), lambda: runs[0](held_out[:BATCH]))
    measured = measure_loss(*runs, held_out, np.array(few.held_out.labels), (len(whole), len(small)))
    return {"set": name, **asdict(measured), "float_over_int8": slow / fast}


def rejection(data: Path, name: str) -> dict[str, Any]:
    """Measure which held-out images, and which images of the other datasets, torch, float and int8 reject."""
    few = task(data, name, 10, 0, 300)
    clf, whole, small = float_and_int8(few)
    row: dict[str, Any] = {"set": name}
    others = [task(data, other, 1, 0, 150).held_out for other in SETS if other != name]
    for kind, parts in (("known", [few.held_out]), ("other", others)):
        pixels = np.concatenate([load(part, clf.model_.pixels).pixels for part in parts])
        predictions = clf.predictor_.predict(clf.model_.extract(pixels))
        expected = clf.predictor_.rejected(predictions)
        exact, approximate = (run_in_batches(run_folded(graph), pixels) for graph in (whole, small))
        row[kind] = {
            "images": len(pixels),
            "rejected": float(expected.mean()),
            "float_agreement": float((exact["rejected"] == expected).mean()),
            "int8_rejected": float(approximate["rejected"].mean()),
            "int8_agreement": float((approximate["rejected"] == expected).mean()),
        }
    return row


def page(results: dict[str, Any]) -> str:
    lines = [
        "| backbone | weights | folded | shared | float32 from float64 | folded file | shared file | user's file "
        "| torch / onnxruntime time |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results["parity"]:
        sizes = " | ".join(f"{row[k] / 1e6:.1f} MB" for k in ("folded_bytes", "shared_bytes"))
        lines.append(
            f"| {row['backbone']} | {row['weights']} | {row['folded']:.1e} | {row['shared']:.1e} "
            f"| {row['rounding']:.1e} | {sizes} "
            f"| {row['user_bytes'] / 1e3:.0f} KB | {row['torch_over_onnxruntime']:.1f}× |"
        )
    lines += [
        "",
        "| int8, efficientnet_lite0 | accuracy float | int8 | same class | probabilities move by | file | float / int8 time |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["int8"]:
        lines.append(
            f"| {row['set']} ({row['images']} images) | {row['float_accuracy']:.1%} | {row['accuracy']:.1%} "
            f"| {row['agreement']:.1%} | {row['probability_change']:.3f} "
            f"| {row['bytes'] / 1e6:.1f} MB of {row['float_bytes'] / 1e6:.1f} | {row['float_over_int8']:.1f}× |"
        )
    lines += [
        "",
        "| rejection at a false-alarm rate of 5% | images of the classes: rejected by torch | by int8 | float as torch "
        "| int8 as torch | images of the other sets: rejected by torch | by int8 | float as torch | int8 as torch |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in results.get("rejection", []):
        cells = [
            f"{row[kind][key]:.1%}"
            for kind in ("known", "other")
            for key in ("rejected", "int8_rejected", "float_agreement", "int8_agreement")
        ]
        lines.append(f"| {row['set']} | {' | '.join(cells)} |")
    lines += [
        "",
        "| JPEG, browser against Python | levels of 255, mean | largest | same class | probabilities move by, mean | largest |",
        "|---|---|---|---|---|---|",
    ]
    for row in results.get("jpeg", []):
        lines.append(
            f"| {row['photos']} ({row['images']}) | {row['mean_level']:.2f} | {row['largest_level']} "
            f"| {row['agreement']:.1%} | {row['mean_change']:.4f} | {row['largest_change']:.4f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
