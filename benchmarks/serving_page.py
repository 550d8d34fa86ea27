"""Write results/serving.md from results/serving.json: the measurements and their goals."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

Row = tuple[str, str, str]  # what, measured, goal


def write_page(file: Path, parts: Collection[str]) -> None:
    """Write the page, if all parts have been measured."""
    results = json.loads(file.read_text())
    if all(part in results for part in parts):
        file.with_suffix(".md").write_text(page(results, parts))


def page(results: dict[str, Any], parts: Collection[str]) -> str:
    """Return the page in Markdown."""
    machine = results["machine"]
    loads = ", ".join(f"{part} {results[part]['machine load']:.1f}" for part in parts)
    rows = [*_speed(results), *_memory(results), *_answers(results), *_users(results)]
    lines = [
        f"{results['users']:,} users with one update each, in SQLite and a folder; {results['backbone']}, {results['single']['size']} pixels. "
        f"{machine['cores']} cores, onnxruntime {machine['onnxruntime']}, torch {machine['torch']}; load average before "
        f"each part, which includes the part before it: {loads}. Made by `{results['command']}`.",
        "",
        "| what | measured | goal |",
        "|---|---|---|",
        *(f"| {what} | {measured} | {goal} |" for what, measured, goal in rows),
        "",
        *_plans(results["batches"]),
        "",
        *_notes(results),
    ]
    return "\n".join(lines) + "\n"


def _speed(results: dict[str, Any]) -> list[Row]:
    single, batches, film = results["single"], results["batches"], results["film"]
    ms, speeds, best = single["ms"], batches["images a second"], batches["best"]
    return [
        ("one image on one thread: onnxruntime against torch", f"**{single['ratio']:.2f}×** ({ms['onnx']['median']:.1f}, {ms['torch']['median']:.1f} ms)", "≥ 1.7×"),
        ("32 images of 32 users: the service's plan on onnxruntime against the best plan of torch", f"**{batches['ratio']:.2f}×** ({speeds['onnx']['service']:.0f}, {speeds['torch'][best['torch']]:.0f} images a second)", "≥ 1.3×"),
        ("… the best plan of onnxruntime", f"{batches['best ratio']:.2f}× ({best['onnx']})", ""),
        ("speed with γ, β of each image, relative to a graph with one user's γ, β folded into the weights", f"{film['of folded']:.0%}", ""),
        ("a model for each request takes the time of", f"{film['model each']:.1f} images of a hot user", ""),
    ]  # fmt: skip


def _memory(results: dict[str, Any]) -> list[Row]:
    resident = results["resident"]
    user, share, memory = resident["user"], resident["share of the other"], resident["MB"]
    other = "the version before" if resident["other"] == "before" else "torch's"

    def sizes(when: str) -> str:
        rows = ", ".join(f"{name} {sizes[when]['Rss']:.0f}" for name, sizes in memory.items())
        return f"MB: {rows}; PSS {memory['onnx'][when]['Pss']:.0f}"

    return [
        (f"resident memory of a service that has started, relative to {other}", f"**{share['start']:.0%}** ({sizes('start')})", "≤ 50%"),
        (f"… that has worked for {resident['few']} users", f"**{share['few users']:.0%}** ({sizes('few users')})", "≤ 50%"),
        (f"… with {resident['hot']:,} hot users", f"**{share['hot users']:.0%}** ({sizes('hot users')})", "≤ 50%"),
        ("memory per user, relative to the size of the update", f"**{user['ratio']:.0%}** ({user['bytes a user'] / 1000:.0f} of {user['update'] / 1000:.0f} KB)", "≤ 120%"),
    ]  # fmt: skip


def _answers(results: dict[str, Any]) -> list[Row]:
    correct = results["correct"]
    return [
        (f"wrong answers, of {correct['requests']:,} concurrent ones", f"**{correct['wrong']}**", "0"),
        ("largest difference of a probability from a single prediction", f"**{correct['largest difference']:.1e}**", "≤ 1e-5"),
        (f"… from one with torch ({correct['compared with torch']:,} requests)", f"{correct['difference from torch']:.1e}", ""),
    ]  # fmt: skip


def _users(results: dict[str, Any]) -> list[Row]:
    cold, latency, active = results["cold"], results["latency"], results["active"]
    warm, other, load = latency["warm"], latency["cold"], latency["load"]
    penalty = other["p99"] - warm["p99"]
    speeds = ", ".join(f"{speed:.0f}" for speed in active["requests a second"].values())
    counts = ", ".join(f"{int(count):,}" for count in active["requests a second"])
    loading = [
        (f"loading an update of {cold['bytes'][kind] / 1000:.0f} KB: p50, p99 (torch's engine)", "{p50:.1f}, {p99:.1f} ms".format(**cold["onnx"][kind]) + " ({p50:.1f}, {p99:.1f} ms)".format(**cold["torch"][kind]), "")
        for kind in ("without support", "with support")
    ]  # fmt: skip
    return [
        *loading,
        ("latency over HTTP, cached user: p50, p99", f"{warm['p50']:.0f}, {warm['p99']:.0f} ms", ""),
        ("latency over HTTP, other user: p50, p99", f"{other['p50']:.0f}, {other['p99']:.0f} ms", ""),
        ("difference of the two p99", f"**{penalty:+.1f} ms**", "≤ 10 ms"),
        (f"requests per second over HTTP, {load['clients']} clients, each request of another user", f"{load['requests a second']:.0f}", ""),
        (f"requests per second over HTTP with {counts} active users, {active['cached']} of them in memory", speeds, ""),
        ("… the largest ratio between fewer and more users", f"**{active['loss']:.2f}×**", "≤ 2×"),
    ]  # fmt: skip


def _plans(batches: dict[str, Any]) -> list[str]:
    """Return the table of all plans: rows are images of a pass, columns engines and threads."""
    speeds = batches["images a second"]
    ours = [name for name in speeds["onnx"] if name != "service"]
    sizes = sorted({int(name.split()[0].rstrip(",")) for name in ours})
    threads = sorted({int(name.split("×")[1]) for name in ours if "×" in name})
    header = ["images of a pass", "onnxruntime, one call after the other"]
    header += [f"onnxruntime, passes at once: {count}" for count in threads]
    header += [f"torch, threads: {count}" for count in threads]
    lines = [f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for size in sizes:
        row = [str(size), f"{speeds['onnx'][f'{size}, answers']:.0f}"]
        row += [
            f"{speeds[runtime][f'{size} × {count}']:.0f}"
            for runtime in ("onnx", "torch")
            for count in threads
        ]
        lines.append(f"| {' | '.join(row)} |")
    return [
        *lines,
        "",
        f"Images a second, 32 images of 32 users. In the plans of their services: onnxruntime {speeds['onnx']['service']:.0f}, "
        f"torch {speeds['torch']['service']:.0f}.",
    ]


def _notes(results: dict[str, Any]) -> list[str]:
    ms, correct, latency = results["film"]["ms"], results["correct"], results["latency"]
    return [
        f"Time per image on one thread, in ms: answer for a hot user {ms['answers']:.1f}, features with γ, β of each image "
        f"{ms['per image']:.1f}, folded graph {ms['folded']:.1f}, update read for each request {ms['member each']:.1f}, model "
        f"loaded for each request {ms['model each']:.1f}.",
        "",
        f"The {correct['requests']:,} concurrent requests came from {correct['users']:,} users through {correct['threads']} "
        f"threads, {correct['cache misses']:,} of them not in the cache. Latency: {latency['requests']:,} requests each, one at "
        f"a time. A stored update has {results['resident']['user']['stored'] / 1000:.0f} KB with its support features, which "
        "are not kept in memory.",
    ]
