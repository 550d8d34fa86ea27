"""Write results/serving.md from results/serving.json: the measurements and their goals."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any


def write_page(file: Path, parts: Collection[str]) -> None:
    """Write the page, if all parts have been measured."""
    results = json.loads(file.read_text())
    if all(part in results for part in parts):
        file.with_suffix(".md").write_text(page(results, parts))


# The keys of results/serving.json and their names on the page.
NAMES = {
    "mixed": "multi-user batch",
    "plain": "plain backbone",
    "rows": "backbone with γ, β per image",
    "film layers": "FiLM layers",
    "folded": "folded norms",
    "one by one": "one request at a time",
    "in turn": "updates loaded in turn",
    "a model each": "a model per user",
    "right": "correctness",
    "http": "HTTP",
}


def page(results: dict[str, Any], parts: Collection[str]) -> str:
    """Return the page in Markdown."""
    speed, memory, correctness = results["throughput"], results["memory"], results["right"]
    latency, load, loading = results["http"]["latency"], results["http"]["load"], results["loading"]
    speedup, ms = speed["ahead"], speed["ms"]
    warm, cold = latency["warm"], latency["cold"]
    penalty = cold["p99"] - warm["p99"]
    rows = [
        ("multi-user batches of 32 against one request at a time", f"**{speedup['one by one']:.2f}×**", "> 1×"),
        ("… against loading the updates into one model in turn", f"**{speedup['in turn']:.2f}×**", "> 1×"),
        ("… against loading a model for each user", f"**{speedup['a model each']:.0f}×**", "> 1×"),
        ("throughput with γ, β per image, relative to the plain backbone", f"**{speed['of plain']:.0%}**", "≥ 90%"),
        ("… relative to the backbone with all norms folded", f"{speed['of folded']:.0%}", ""),
        ("latency over HTTP, cached user: p50, p99", f"{warm['p50']:.0f}, {warm['p99']:.0f} ms", ""),
        ("latency over HTTP, other user: p50, p99", f"{cold['p50']:.0f}, {cold['p99']:.0f} ms", ""),
        ("difference of the two p99", f"**{penalty:+.1f} ms**", "≤ 10 ms"),
        ("loading an update: p50, p99", f"{loading['wall']['p50']:.1f}, {loading['wall']['p99']:.1f} ms", ""),
        ("memory per user, relative to the size of the update", f"**{memory['ratio']:.0%}** ({memory['bytes a user'] / 1000:.0f} of {memory['update'] / 1000:.0f} KB)", "≤ 120%"),
        (f"predictions of another user, of {correctness['requests']:,} concurrent ones", f"**{correctness['wrong']}**", "0"),
        ("largest difference of a probability from the single-user model", f"{correctness['largest difference']:.1e}", "≤ 1e-5"),
        (f"requests per second over HTTP, {load['clients']} clients, each request of another user", f"{load['requests a second']:.0f}", ""),
    ]  # fmt: skip
    lines = [
        f"{results['users']:,} users with one update each, in SQLite and a folder, {results['backbone']}, {speed['size']} pixels. "
        f"{results['machine']['cores']} cores, one thread, on a machine with other work (load average: "
        + ", ".join(f"{NAMES.get(part, part)} {results[part]['machine load']:.0f}" for part in parts)
        + "); "
        + f"made by `{results['command']}`.",
        "",
        "| what | measured | goal |",
        "|---|---|---|",
        *(f"| {what} | {measured} | {goal} |" for what, measured, goal in rows),
        "",
        "Processor time per image, median of "
        f"{len(speed['all']['mixed'])} rounds, in ms: "
        + ", ".join(f"{NAMES.get(name, name)} {value:.1f}" for name, value in ms.items())
        + ".",
        "",
        f"The {correctness['requests']:,} concurrent requests came from {correctness['users']:,} users through {correctness['threads']} threads, with images of {correctness['size']} pixels, "
        f"{correctness['images a pass']} in one pass. Latency: {latency['requests']:,} requests each, one at a time. A stored update has "
        f"{memory['stored'] / 1000:.0f} KB with its support features, which are not loaded into memory.",
        "",
    ]
    return "\n".join(lines)
