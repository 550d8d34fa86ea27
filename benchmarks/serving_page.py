"""results/serving.json → results/serving.md: what was measured, beside its goal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def write_page(file: Path) -> None:
    found = json.loads(file.read_text())
    if all(part in found for part in PARTS):
        file.with_suffix(".md").write_text(page(found))


PARTS = ("throughput", "memory", "right", "http", "loading")


def page(found: dict[str, Any]) -> str:
    speed, memory, right = found["throughput"], found["memory"], found["right"]
    latency, load, loading = found["http"]["latency"], found["http"]["load"], found["loading"]
    ahead, ms = speed["ahead"], speed["ms"]
    warm, cold = latency["warm"], latency["cold"]
    later = cold["p99"] - warm["p99"]
    rows = [
        ("mixed-user batches of 32 against one request at a time", f"**{ahead['one by one']:.2f}×**", "ahead"),
        ("… against loading updates into one model in turn", f"**{ahead['in turn']:.2f}×**", "ahead"),
        ("… against loading a whole model for each user", f"**{ahead['a model each']:.0f}×**", "ahead"),
        ("throughput with γ, β for each image, of the plain backbone's", f"**{speed['of plain']:.0%}**", "≥ 90%"),
        ("… of the backbone's with every norm folded", f"{speed['of folded']:.0%}", ""),
        ("latency over HTTP, user in memory: p50, p99", f"{warm['p50']:.0f}, {warm['p99']:.0f} ms", ""),
        ("latency over HTTP, user not in memory: p50, p99", f"{cold['p50']:.0f}, {cold['p99']:.0f} ms", ""),
        ("p99 of users not in memory, above that of those who are", f"**{later:+.1f} ms**", "≤ 10 ms"),
        ("reading and preparing an update: p50, p99", f"{loading['wall']['p50']:.1f}, {loading['wall']['p99']:.1f} ms", ""),
        ("memory for one more user, of the update's size", f"**{memory['ratio']:.0%}** ({memory['bytes a user'] / 1000:.0f} of {memory['update'] / 1000:.0f} KB)", "≤ 120%"),
        (f"answers that were another user's, of {right['requests']:,} concurrent ones", f"**{right['wrong']}**", "0"),
        ("largest difference from an ordinary model's probability", f"{right['largest difference']:.1e}", "≤ 1e-5"),
        (f"requests a second over HTTP, {load['clients']} clients, every request another user", f"{load['requests a second']:.0f}", ""),
    ]  # fmt: skip
    lines = [
        f"{found['users']:,} users with an update each in SQLite and a folder, {found['backbone']}, {speed['size']} pixels. "
        f"{found['machine']['cores']} cores, one thread, and a machine that others used too (load "
        + ", ".join(f"{part} {found[part]['machine load']:.0f}" for part in PARTS)
        + "); "
        + f"made by `{found['command']}`.",
        "",
        "| what | measured | goal |",
        "|---|---|---|",
        *(f"| {what} | {measured} | {goal} |" for what, measured, goal in rows),
        "",
        "Processor time for an image, median of "
        f"{len(speed['all']['mixed'])} turns, in ms: "
        + ", ".join(f"{name} {value:.1f}" for name, value in ms.items())
        + ".",
        "",
        f"The {right['requests']:,} concurrent requests came from {right['users']:,} users through {right['threads']} threads, with images of {right['size']} pixels, "
        f"{right['images a pass']} in a pass. Latency: {latency['requests']:,} requests each, one at a time, in turn. A stored update weighs "
        f"{memory['stored'] / 1000:.0f} KB with its support features, which stay on disk.",
        "",
    ]
    return "\n".join(lines)
