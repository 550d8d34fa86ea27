"""The page of benchmarks/runtime.py."""

from __future__ import annotations

from functools import partial
from typing import Any


def page(results: dict[str, Any]) -> str:
    """Return runtime.md."""
    machine = results["machine"]
    lines = [
        "# Features on onnxruntime and on torch",
        "",
        f"{machine['backbone']}, 224 pixels, {', '.join(f'{k} {v}' for k, v in machine['versions'].items())}. "
        "Milliseconds an image, the least of many turns; ratios are what to read. The load average of the machine "
        "when a part began: "
        + ", ".join(f"{name} {part['load']}" for name, part in results.items() if name != "machine")
        + ".",
        "",
    ]
    for name, write in (
        ("one_thread", _one_thread),
        ("users_one_core", _users),
        ("users_two_cores", _users),
        ("operators", partial(_operators, machine["matmul_gflops"])),
        ("process", _process),
    ):
        if name in results:
            lines += write(results[name]["result"])
    return "\n".join(lines)


def _one_thread(rows: list[dict[str, Any]]) -> list[str]:
    names = [name for name in rows[0] if name != "images"]
    lines = ["## One thread", "", f"| images | {' | '.join(names)} | torch / runtime |"]
    lines.append("|" + "---|" * (len(names) + 2))
    for row in rows:
        ratio = row["torch, a row for each image"] / row[names[-1]]
        cells = " | ".join(f"{row[name]:.2f}" for name in names)
        lines.append(f"| {row['images']} | {cells} | {ratio:.2f}× |")
    return [*lines, ""]


def _users(rows: dict[str, dict[str, float]]) -> list[str]:
    sizes = list(rows["torch"])
    cores = "one core" if "1" in sizes else "two cores, wall-clock time"
    sizes = list(dict.fromkeys(["1", *sizes]))
    lines = [f"## 32 images of 32 users, {cores}", ""]
    lines += [f"| images in a part | {' | '.join(sizes)} | best |", "|" + "---|" * (len(sizes) + 2)]
    for name, times in rows.items():
        cells = " | ".join(f"{times[size]:.2f}" if size in times else "" for size in sizes)
        lines.append(f"| {name} | {cells} | {1000 / min(times.values()):.0f} images/s |")
    ratio = min(rows["torch"].values()) / min(rows["runtime"].values())
    return [*lines, "", f"Each at its best size, the runtime computes {ratio:.2f}× the images of torch.", ""]


def _operators(peak: float, rows: list[dict[str, Any]]) -> list[str]:
    lines = [
        "## Where the time of one image goes",
        "",
        f"A product of two 2048 × 2048 matrices reaches {peak:.0f} GFLOP/s on one thread.",
        "",
        "| nodes | ms | million multiplications | GFLOP/s | share of the matrix product |",
        "|---|---|---|---|---|",
    ]
    total = {
        "kind": "all",
        **{name: sum(row[name] for row in rows) for name in ("milliseconds", "products")},
    }
    for row in [*sorted(rows, key=lambda row: -row["milliseconds"]), total]:
        speed = 2 * row["products"] / row["milliseconds"] / 1e6
        figures = (
            f"{row['products'] / 1e6:.0f} | {speed:.0f} | {speed / peak:.0%}" if row["products"] else " | | "
        )
        lines.append(f"| {row['kind']} | {row['milliseconds']:.2f} | {figures} |")
    return [
        *lines,
        "",
        "The 1×1 convolutions, most of the arithmetic, run nearly at the speed of a matrix product: arithmetic bounds them. "
        "Depthwise convolutions use each number they load only 9 or 25 times; probably loads bound them (not measured). "
        "FiLM and the layout changes around it only move memory.",
        "",
    ]


def _process(times: dict[str, float]) -> list[str]:
    return [
        "## A process that computes one image",
        "",
        f"{times['all']:.0f} ms: imports {times['imports']:.0f}, opening the graph {times['open']:.0f}, "
        f"the image {times['image']:.0f}.",
        "",
    ]
