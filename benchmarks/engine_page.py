"""Write the tables and the figure of engine.json: engine.md, its first table in engine_targets.md, and engine.png."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

INK, OURS, OTHER, FAINT = "#1f2430", "#1b6ca8", "#d1495b", "#c9ced6"


def write_pages(file: Path) -> None:
    """Write tables and figure of the stored parts."""
    results = json.loads(file.read_text())
    parts = (targets, savings, memory, speed, cuts, growth, busy, accuracy)
    page = "\n".join(line for part in parts for line in part(results))
    file.with_suffix(".md").write_text(page.rstrip() + "\n")
    file.with_name("engine_targets.md").write_text("\n".join(target_table(results)) + "\n")
    draw(results, file.with_suffix(".png"))
    print(page)


def ratios(results: dict[str, Any]) -> list[tuple[str, float, float, float, float]]:
    """Return (work, plain seconds, our seconds, ratio, target) of every stored pair."""
    rows = []
    for name, head in results.get("heads", {}).items():
        title = f"{name.upper()} head, D = 2048, N = 100, C = 10"
        rows.append((title, head["plain_seconds"], head["seconds"], head["target"]))
    for title, step in results.get("steps", {}).items():
        rows.append((f"step, {title}", step["plain"]["seconds"], step["ours"]["seconds"], step["target"]))
    if runs := results.get("accuracy"):
        paper, fast = (fmean(r[k] for r in runs.values()) for k in ("paper_seconds", "fast_seconds"))
        rows.append(("time to the accuracy of the paper's protocol", paper, fast, 10))
    return [(title, plain, ours, plain / ours, target) for title, plain, ours, target in rows]


def target_table(results: dict[str, Any]) -> list[str]:
    lines = ["| work | plain loop | engine | ratio | goal |", "|---|---|---|---|---|"]
    for title, plain, ours, ratio, target in ratios(results):
        lines.append(f"| {title} | {_time(plain)} | {_time(ours)} | **{_ratio(ratio)}** | {target:g}× |")
    return lines


def targets(results: dict[str, Any]) -> list[str]:
    notes = [
        f"{name.upper()} head: loss apart by {head['loss_difference']:.0e}, gradient by {head['gradient_difference']:.0e}"
        for name, head in results.get("heads", {}).items()
    ]
    notes += [
        f"{title}: losses of {len(step['ours']['losses'])} steps apart by at most {step['largest_loss_difference']:.0e}"
        for title, step in results.get("steps", {}).items()
    ]
    machine = results["machine"]
    notes.append(
        f"machine: {machine['cores']} cores, {machine['threads']} threads, torch {machine['torch']}, "
        f"{machine['matmul_gflops']:.0f} GFLOP/s in a float32 matrix product"
    )
    return [*target_table(results), "", *(f"- {note}" for note in notes), ""]


def savings(results: dict[str, Any]) -> list[str]:
    lines = []
    for backbone, ladder in results.get("savings", {}).items():
        first = ladder["the plain loop"]
        lines += [f"| a step of {backbone}, LDA, with | seconds | in all |", "|---|---|---|"]
        lines += [
            f"| {name if name == 'the plain loop' else '+ ' + name} | {_time(s)} | {_ratio(first / s)} |"
            for name, s in ladder.items()
        ]
        lines.append("")
    return lines


def memory(results: dict[str, Any]) -> list[str]:
    lines = ["| peak resident memory of a step | plain loop | engine |", "|---|---|---|"]
    for title, step in results.get("steps", {}).items():
        lines.append(f"| {title} | {step['plain']['peak_mb']:.0f} MB | {step['ours']['peak_mb']:.0f} MB |")
    for images, peak in results.get("memory", {}).items():
        plain = f"{peak['plain']:.0f} MB" if "plain" in peak else ""
        lines.append(f"| efficientnet_lite0, {images} query images | {plain} | {peak['ours']:.0f} MB |")
    return [*lines, ""]


def speed(results: dict[str, Any]) -> list[str]:
    lines = [
        "| backbone, 64 images of 128 px | forward and backward | forward | matrix product | share | images a second |",
        "|---|---|---|---|---|---|",
    ]
    for name, run in results.get("speed", {}).items():
        forward = f"{run['predict_gflops']:.0f} GFLOP/s" if "predict_gflops" in run else ""
        lines.append(
            f"| {name} | {run['train_gflops']:.0f} GFLOP/s | {forward} | {run['matmul_gflops']:.0f} GFLOP/s | "
            f"{run['train_gflops'] / run['matmul_gflops']:.0%} | {run['train_images_a_second']:.0f} |"
        )
    return [*lines, ""]


def cuts(results: dict[str, Any]) -> list[str]:
    by_size = results.get("cuts", {})
    if not by_size:
        return []
    first = by_size["128"]["0"]
    lines = [
        "| FiLM from stage | " + " | ".join(f"{size} px" for size in by_size) + " |",
        "|---|" + "---|" * len(by_size),
    ]
    for stage in by_size["128"]:
        cells = [f"{_time(run[stage])} ({first / run[stage]:.1f}×)" for run in by_size.values()]
        lines.append(f"| {stage} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def growth(results: dict[str, Any]) -> list[str]:
    return [
        f"- {title}: " + ", ".join(f"{x} → {_time(ms / 1000)}" for x, ms in values.items())
        for title, values in results.get("growth", {}).items()
    ]


def busy(results: dict[str, Any]) -> list[str]:
    runs = results.get("busy")
    if not runs:
        return []
    return [
        "- a step of 100 images, lite0: " + ", ".join(f"{name} {_time(s)}" for name, s in runs.items()),
        "",
    ]


def accuracy(results: dict[str, Any]) -> list[str]:
    runs = results.get("accuracy", {})
    if not runs:
        return []
    lines = ["| set, seed | fast | in | 400 steps | in |", "|---|---|---|---|---|"]
    for name, run in runs.items():
        lines.append(
            f"| {name} | {100 * run['fast']:.1f} | {run['fast_seconds']:.0f} s | {100 * run['paper']:.1f} | "
            f"{run['paper_seconds']:.0f} s |"
        )
    fast, took, paper, paper_took = (
        fmean(run[k] for run in runs.values()) for k in ("fast", "fast_seconds", "paper", "paper_seconds")
    )
    lines.append(f"| mean | {100 * fast:.1f} | {took:.0f} s | {100 * paper:.1f} | {paper_took:.0f} s |")
    return [*lines, ""]


def draw(results: dict[str, Any], file: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 10, "axes.edgecolor": FAINT, "text.color": INK, "axes.labelcolor": INK})
    figure, ((bars, heads), (sizes, stages)) = plt.subplots(2, 2, figsize=(12, 8.5), layout="constrained")
    rows = ratios(results)[::-1]
    for i, (_, _, _, ratio, target) in enumerate(rows):
        bars.barh(i, ratio, color=OURS, height=0.55)
        bars.plot([target, target], [i - 0.38, i + 0.38], color=OTHER, linewidth=2)
        bars.text(ratio * 1.08, i, _ratio(ratio), va="center")
    bars.set_yticks(range(len(rows)), [title.replace(", D =", "\nD =") for title, *_ in rows])
    bars.set_xscale("log")
    bars.set_xlim(1, max([r[3] for r in rows], default=1) * 3)
    bars.set_title("times faster than the plain loop (red: the goal)", loc="left")

    grown = results.get("growth", {})
    for name, colour in (("lda", OURS), ("qda", OTHER)):
        for letter, style in (("N", "-"), ("C", "--"), ("D", ":")):
            if values := grown.get(f"{name} by {letter}"):
                heads.plot(
                    [int(x) for x in values],
                    list(values.values()),
                    style,
                    color=colour,
                    marker="o",
                    markersize=3,
                    label=f"{name.upper()} by {letter}",
                )
    heads.set(xscale="log", yscale="log", xlabel="N, C or D", ylabel="ms, forward and backward")
    heads.set_title("heads (N = 100, C = 10, D = 1280 but for one)", loc="left")
    if grown:
        heads.legend(frameon=False, ncols=2, fontsize=8)

    if values := grown.get("step by image size"):
        sizes.plot([int(x) for x in values], list(values.values()), "o-", color=OURS)
        sizes.set(xlabel="image side, pixels", ylabel="ms", ylim=0)
    sizes.set_title("a step of 100 images, efficientnet_lite0", loc="left")

    for (size, run), colour in zip(results.get("cuts", {}).items(), (OURS, "#2a9d8f", OTHER), strict=False):
        stages.plot(
            [int(s) for s in run], [1000 * v for v in run.values()], "o-", color=colour, label=f"{size} px"
        )
    stages.set(xlabel="FiLM from stage", ylabel="ms", ylim=0)
    stages.set_title("the same step with the stages below kept", loc="left")
    if results.get("cuts"):
        stages.legend(frameon=False)
    for axis in (bars, heads, sizes, stages):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="x" if axis is bars else "y", color=FAINT, linewidth=0.6)
        axis.set_axisbelow(True)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def _time(seconds: float) -> str:
    if seconds < 0.1:
        return f"{1000 * seconds:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def _ratio(value: float) -> str:
    return f"{value:.2f}×" if value < 10 else f"{value:.0f}×"


if __name__ == "__main__":  # write the pages again from the stored results
    write_pages(Path(__file__).parent / "results" / "engine.json")
