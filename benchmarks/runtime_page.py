"""The page of benchmarks/runtime.py."""

from __future__ import annotations

from typing import Any


def page(results: dict[str, Any]) -> str:
    """Return runtime.md."""
    return "\n".join(
        [
            "# Features on onnxruntime and on torch",
            "",
            f"{results['backbone']}, 224 pixels, {', '.join(f'{k} {v}' for k, v in results['versions'].items())}. "
            "Milliseconds an image, the least of many turns; ratios are what to read.",
            "",
            *_one_thread(results["one_thread"]),
            *_users(results["users"]),
            *_operators(results),
            *_process(results["process"]),
        ]
    )


def _one_thread(rows: list[dict[str, Any]]) -> list[str]:
    names = [name for name in rows[0] if name != "images"]
    lines = ["## One thread", "", f"| images | {' | '.join(names)} | torch / runtime |"]
    lines.append("|" + "---|" * (len(names) + 2))
    for row in rows:
        ratio = row["torch, a row for each image"] / row[names[-1]]
        cells = " | ".join(f"{row[name]:.2f}" for name in names)
        lines.append(f"| {row['images']} | {cells} | {ratio:.2f}× |")
    return [*lines, ""]


def _users(tables: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    sizes = list(tables["1"]["torch"])
    lines = ["## 32 images of 32 users, computed in parts", ""]
    lines += [f"| cores | images in a part | {' | '.join(sizes)} | best |", "|" + "---|" * (len(sizes) + 3)]
    ratios = {}
    for cores, rows in tables.items():
        for name, times in rows.items():
            cells = " | ".join(f"{times[size]:.2f}" if size in times else "" for size in sizes)
            lines.append(f"| {cores} | {name} | {cells} | {1000 / min(times.values()):.0f} images/s |")
        ratios[cores] = min(rows["torch"].values()) / min(rows["runtime"].values())
    return [
        *lines,
        "",
        f"Each at its best size, the runtime computes {ratios['1']:.2f}× the images of torch on one core and "
        f"{ratios['2']:.2f}× on two. On two cores torch and the graph of a batch use two threads for each part; the "
        "runtime has two threads that compute images of their own.",
        "",
    ]


def _operators(results: dict[str, Any]) -> list[str]:
    rows, peak = results["operators"], results["matmul_gflops"]
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
    return [*lines, ""]


def _process(times: dict[str, float]) -> list[str]:
    return [
        "## A process that computes one image",
        "",
        f"{times['all']:.0f} ms: imports {times['imports']:.0f}, opening the graph {times['open']:.0f}, "
        f"the image {times['image']:.0f}.",
        "",
    ]
