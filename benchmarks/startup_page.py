"""Write results/startup.md from results/startup.json: the seconds of every process, its goal and what it imports."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any


def write_page(file: Path) -> None:
    """Write the page."""
    text = page(json.loads(file.read_text()))
    file.with_suffix(".md").write_text(text)
    print(text)


def page(results: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    measured, machine = results["programs"], results["machine"]
    has_former = any("before" in program for program in measured)
    medians = {program["name"]: median(program["now"]["seconds"]) for program in measured}
    columns = ["process", "best", "median", *(["before", "ratio"] if has_former else []), "goal", "imports"]
    lines = [
        f"Seconds from the start of a process to its end, files in the page cache, runs of all processes in turns. "
        f"{machine['cores']} cores, Python {machine['python']}, torch {machine['torch']}, onnxruntime "
        f"{machine['onnxruntime']}; load average {machine['load at the start']:.1f} at the start and "
        f"{machine['load']:.1f} at the end, which includes the benchmark itself; made by `{results['command']}`."
        + (" *before* is the median with the code of the other checkout." if has_former else ""),
        "",
        f"| {' | '.join(columns)} |",
        "|---" * len(columns) + "|",
    ]
    for program in measured:
        seconds = program["now"]["seconds"]
        middle = f"{median(seconds):.2f}"
        cells = [
            f"`{program['name']}`" if program["name"].startswith(("fit ", "python ")) else program["name"]
        ]
        cells += [f"{min(seconds):.2f}", f"**{middle}**" if program["goal"] else middle]
        if has_former:
            cells += _former(program, median(seconds))
        cells += [_goal(program, medians), ", ".join(program["now"]["imports"])]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _former(program: dict[str, Any], now: float) -> list[str]:
    if "before" not in program:
        return ["", ""]
    before = median(program["before"]["seconds"])
    return [f"{before:.2f}", f"{before / now:.1f}×"]


def _goal(program: dict[str, Any], medians: dict[str, float]) -> str:
    if program["goal"] is None:
        return ""
    if program["beyond"] is None:
        return f"≤ {program['goal']:.1f}"
    return f"≤ {medians[program['beyond']] + program['goal']:.2f} (torch + {program['goal']:.1f})"
