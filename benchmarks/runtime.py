"""Compare the features of the runtime (onnxruntime) with those of torch: milliseconds an image, and where they go.

    python benchmarks/runtime.py            about 3 minutes

efficientnet_lite0 at 224 pixels; every image belongs to another user. Contestants take turns within one process, and the
least time of many turns counts, because other programs can only make a turn slower. On one thread it is processor time,
on two it has to be wall-clock time, for which the machine should be idle otherwise. Writes benchmarks/results/runtime.json
and, from it, runtime.md.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from filmtransfer import film
from filmtransfer.backbones import Backbone, load_backbone
from filmtransfer.backbones.frozen import fold_frozen_layers
from filmtransfer.export.shared import SharedBackbone
from filmtransfer.film import FilmTable
from filmtransfer.model.network import share_weights
from filmtransfer.model.tensors import normalise
from filmtransfer.runtime import FeatureSession, open_session
from filmtransfer.runtime.facts import package_version
from filmtransfer.runtime.graph import build_graph
from filmtransfer.runtime.tracing import fix_image_size, trace
from filmtransfer.training.torch_settings import keep_freed_memory
from runtime_page import page

RESULTS = Path(__file__).parent / "results"
BACKBONE, FILM_FROM = "efficientnet_lite0", 3
BATCHES, USERS = (1, 2, 4, 8, 32), 32
Run = Callable[[int], object]  # computes features of the first so many images


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=PARTS, nargs="+", default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=6.0, help="for each row of a table")
    args = parser.parse_args()
    with suppress(OSError):
        os.nice(-5)
    keep_freed_memory()
    study, file = Study(load_backbone(BACKBONE), args.seconds), RESULTS / "runtime.json"
    for part in args.part:
        results = json.loads(file.read_text()) if file.exists() else {}
        results["machine"] = machine()
        results[part] = {"load": round(os.getloadavg()[0], 1), "result": PARTS[part](study)}
        file.write_text(json.dumps(results, indent=1) + "\n")
        (RESULTS / "runtime.md").write_text(page(json.loads(file.read_text())))
    print((RESULTS / "runtime.md").read_text())


def machine() -> dict[str, Any]:
    torch.set_num_threads(1)
    versions = {name: package_version(name) for name in ("torch", "onnxruntime", "numpy")}
    return {"backbone": BACKBONE, "versions": versions, "matmul_gflops": matmul_gflops()}


class Study:
    """The graphs, the images and the time for each row of a table."""

    def __init__(self, backbone: Backbone, seconds: float) -> None:
        self.backbone, self.seconds = backbone, seconds
        self.graphs = {k: build_graph(backbone, backbone.pixels, k) for k in (FILM_FROM, 0, None)}
        self.graph, self.batch = self.graphs[FILM_FROM], batch_graph(backbone)
        self.pixels = np.random.default_rng(0).integers(0, 256, (USERS, 3, 224, 224), dtype=np.uint8)


def one_thread(study: Study) -> list[dict[str, Any]]:
    """Measure batches of each size; the runtime computes their images one by one."""
    torch.set_num_threads(1)
    pixels = study.pixels
    runs = {
        **torch_contestants(study.backbone, pixels),
        "graph of a batch": batch_run(study.batch, pixels, 1, USERS),
        "runtime without FiLM": runtime(study.graphs[None], pixels, 1),
        "runtime, FiLM at every site": runtime(study.graphs[0], pixels, 1),
        f"runtime, FiLM from stage {FILM_FROM}": runtime(study.graph, pixels, 1),
    }
    return [{"images": count, **least(runs, count, study.seconds)} for count in BATCHES]


def batch_graph(backbone: Backbone) -> bytes:
    """Return a graph of any batch size with a row of γ and β for each image, as 'fit export --shared' writes it."""
    sites = backbone.sites_from(FILM_FROM)
    network = copy.deepcopy(backbone.module)
    fold_frozen_layers(network, sites)
    film.attach(network, sites).requires_grad_(False)
    fix_image_size(network, backbone.pixels.size)
    channels = film.count(network) // 2
    size = backbone.pixels.size
    example = {"pixels": torch.zeros(2, 3, size, size, dtype=torch.uint8)}
    example |= {"gamma": torch.ones(2, channels), "beta": torch.zeros(2, channels)}
    return trace(SharedBackbone(network, backbone.pixels), example, ["features"], {})


def film_rows(channels: int) -> tuple[np.ndarray, np.ndarray]:
    noise = 0.1 * np.random.default_rng(1).standard_normal((2, USERS, channels), np.float32)
    return 1 + noise[0], noise[1]


def torch_contestants(backbone: Backbone, pixels: np.ndarray) -> dict[str, Run]:
    """Return the plain backbone, and the one with a row of γ and β for each image (FilmTable)."""
    network, images = share_weights(backbone.module), torch.from_numpy(pixels)
    table, sites = FilmTable(network, backbone.sites), backbone.sites_from(FILM_FROM)
    widths = {site: backbone.module.get_submodule(site).weight.numel() for site in sites}  # type: ignore[operator]
    rows = table.pack(
        {
            f"{s}.{kind}": torch.full((n,), value)
            for s, n in widths.items()
            for kind, value in (("gamma", 1.1), ("beta", 0.1))
        },
        sites,
    )

    def batch(count: int) -> torch.Tensor:
        return normalise(images[:count], backbone.pixels).contiguous(memory_format=backbone.memory_format)

    def plain(count: int) -> object:
        with torch.no_grad():
            return backbone.module(batch(count))

    def users(count: int) -> object:
        with torch.no_grad(), table.rows([rows] * count):
            return network(batch(count))

    return {"torch without FiLM": plain, "torch, a row for each image": users}


def batch_run(content: bytes, pixels: np.ndarray, threads: int, size: int) -> Run:
    """Return the graph of a batch, computing ``size`` images in one call."""
    graph = open_session(content, threads)
    gamma, beta = film_rows(graph.get_inputs()[1].shape[1])

    def run(count: int) -> None:
        for begin in range(0, count, size):
            part = slice(begin, min(begin + size, count))
            graph.run(None, {"pixels": pixels[part], "gamma": gamma[part], "beta": beta[part]})

    return run


def runtime(content: bytes, pixels: np.ndarray, threads: int) -> Run:
    session = FeatureSession(content, threads)
    gamma, beta = film_rows(session.facts.channels)
    return lambda count: session.features(pixels[:count], gamma[:count], beta[:count])


def users(threads: int, study: Study) -> dict[str, dict[str, float]]:
    """Measure 32 images of 32 users, computed in parts of each size; the runtime computes images one by one."""
    torch.set_num_threads(threads)
    pixels = study.pixels
    table = torch_contestants(study.backbone, pixels)["torch, a row for each image"]
    runs: dict[tuple[str, int], Run] = {("runtime", 1): runtime(study.graph, pixels, threads)}
    for size in BATCHES if threads == 1 else BATCHES[2:]:
        runs["torch", size] = partial(torch_parts, table, size)
        runs["graph of a batch", size] = batch_run(study.batch, pixels, threads, size)
    clock = time.process_time if threads == 1 else time.perf_counter
    times = least(runs, USERS, 3 * study.seconds, clock)
    names = dict.fromkeys(name for name, _ in runs)
    return {
        name: {str(size): time for (other, size), time in times.items() if other == name} for name in names
    }


def torch_parts(run: Run, size: int, count: int) -> None:
    for _ in range(0, count, size):
        run(size)


def least(
    runs: Mapping[Any, Run], count: int, seconds: float, clock: Callable[[], float] = time.process_time
) -> dict[Any, float]:
    """Return the least milliseconds an image of each contestant; they take turns until the time is over."""
    best = dict.fromkeys(runs, float("inf"))
    end = time.perf_counter() + seconds
    turns = 0
    while turns < 3 or time.perf_counter() < end:
        for name, run in runs.items():
            start = clock()
            run(count)
            best[name] = min(best[name], (clock() - start) / count * 1000)
        turns += 1
    return best


def matmul_gflops(side: int = 2048, turns: int = 8) -> float:
    """Return the speed of a large float32 product on one thread: the better of torch and onnxruntime."""
    from onnx import TensorProto, helper

    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [side, side]) for n in "abc"]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "b"], ["c"])], "product", values[:2], values[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    product = open_session(model.SerializeToString(), 1)
    a = np.random.default_rng(0).standard_normal((side, side), np.float32)
    t = torch.from_numpy(a)
    runs: dict[str, Run] = {
        "torch": lambda _: t @ t,
        "onnxruntime": lambda _: product.run(None, {"a": a, "b": a}),
    }
    times = [min(least(runs, 1, 0.1).values()) for _ in range(turns)]
    return 2 * side**3 / min(times) / 1e6


def operators(study: Study, turns: int = 40) -> list[dict[str, Any]]:
    """Profile one image on one thread: the least milliseconds of each node, summed by kind, with its multiplications."""
    import onnxruntime

    content, pixels = study.graph, study.pixels
    gamma, beta = film_rows(FeatureSession(content, 1).facts.channels)
    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 3, 1
        options.enable_profiling, options.profile_file_prefix = True, str(Path(folder, "profile"))
        graph = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        for _ in range(turns):
            graph.run(None, {"pixels": pixels[:1], "gamma": gamma[0], "beta": beta[0]})
        events = json.loads(Path(graph.end_profiling()).read_text())
    nodes: dict[str, tuple[float, str, int]] = {}
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            kind, products = _kind(event["args"])
            best = min(event["dur"], nodes.get(event["name"], (float("inf"),))[0])
            nodes[event["name"]] = best, kind, products
    kinds = dict.fromkeys(kind for _, kind, _ in nodes.values())
    return [
        {
            "kind": kind,
            "milliseconds": sum(t for t, k, _ in nodes.values() if k == kind) / 1000,
            "products": sum(n for _, k, n in nodes.values() if k == kind),
        }
        for kind in kinds
    ]


def _kind(args: dict[str, Any]) -> tuple[str, int]:
    """Return what a node of the optimised graph does, and its multiplications."""
    shapes = [next(iter(shape.values())) for shape in args["input_type_shape"]]
    if args["op_name"] == "Conv":
        (output,) = (next(iter(shape.values())) for shape in args["output_type_shape"])
        _, inputs, *kernel = shapes[1]
        name = "depthwise" if inputs == 1 else "1×1" if kernel == [1, 1] else "3×3 of the stem"
        return f"convolutions, {name}", int(np.prod(output) * inputs * np.prod(kernel))
    if args["op_name"].startswith("Reorder"):
        return "layout changes around FiLM", 0
    if args["op_name"] in ("BatchNormalization", "Clip"):
        return "FiLM and its activation", 0
    return "the rest", 0


PROCESS = """
import sys, time; begin = time.perf_counter()
import numpy as np
import onnxruntime; imported = time.perf_counter()
from filmtransfer.runtime import FeatureSession
session = FeatureSession(open(sys.argv[1], "rb").read(), 1); opened = time.perf_counter()
session.features(np.zeros((1, 3, 224, 224), np.uint8), *session.facts.pack({}, None)); end = time.perf_counter()
print(1000 * (imported - begin), 1000 * (opened - imported), 1000 * (end - opened))
"""


def process(study: Study, turns: int = 8) -> dict[str, float]:
    """Measure a process that computes one image: importing, opening the graph, the image, and all of it."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graph.onnx")
        file.write_bytes(study.graph)
        for _ in range(turns):
            start = time.perf_counter()
            command = [sys.executable, "-c", PROCESS, str(file)]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            rows.append([1000 * (time.perf_counter() - start), *map(float, out.split())])
    return dict(zip(("all", "imports", "open", "image"), map(min, zip(*rows, strict=True)), strict=True))


PARTS: dict[str, Callable[[Study], Any]] = {
    "one_thread": one_thread,
    "users_one_core": partial(users, 1),
    "users_two_cores": partial(users, 2),
    "operators": operators,
    "process": process,
}


if __name__ == "__main__":
    main()
