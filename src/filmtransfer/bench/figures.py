"""The paper's figures from result rows, as PNG: accuracy against size, shots and steps, FiLM by layer, ablations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..report.figures import FILM_COLOURS, INK
from . import plotting
from .federated_figures import communication, has_clients, has_curve, spread
from .federated_settings import is_federated
from .methods import SPLITS
from .rows import Row, RunResult, RunSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Draw = Callable[[Sequence[Row]], bytes | None]
Condition = Callable[[RunSettings, RunResult], object]
HEADS = ("LDA", "Linear")
BODIES = {"None": "nothing", "FiLM": "FiLM", "All": "all weights"}


def size(rows: Sequence[Row]) -> bytes:
    """Plot accuracy against updateable parameters, one panel per dataset; the size of a dot shows the shots."""
    methods = plotting.setting_values(rows, "method")
    figure, panels = _dataset_panels(rows, "updateable parameters")
    for axis, name in panels:
        for method in methods:
            groups = plotting.group_rows(rows, "shots", dataset=name, method=method)
            if not groups:
                continue
            colour, marker = plotting.series_style(methods, method)
            xs = [same[0]["result"]["numbers"] for same in groups.values()]
            ys = [plotting.accuracy_interval(same)[0] for same in groups.values()]
            dots = [18 + 34 * i for i in range(len(xs))]
            axis.plot(xs, ys, color=colour, alpha=0.35, linewidth=1)
            axis.scatter(xs, ys, s=dots, color=colour, marker=marker, label=method, alpha=0.85, linewidths=0)
        axis.set_xscale("log")
        axis.xaxis.minorticks_off()  # their labels would overlap
    lows, highs = zip(*(axis.get_xlim() for axis, _ in panels), strict=True)
    for axis, _ in panels:  # the same scale in every panel
        axis.set_xlim(min(lows), max(highs))
    shots = ", ".join(str(s) for s in plotting.setting_values(rows, "shots"))
    return plotting.finish_figure(figure, f"dot from small to large: {shots} shots")


def shots(rows: Sequence[Row]) -> bytes:
    """Plot accuracy against shots per class with 95% intervals over seeds, one panel per dataset."""
    methods, steps = plotting.setting_values(rows, "method"), plotting.setting_values(rows, "shots")
    figure, panels = _dataset_panels(rows, "shots per class")
    for axis, name in panels:
        for i, method in enumerate(methods):
            groups = plotting.group_rows(rows, "shots", dataset=name, method=method)
            if not groups:
                continue
            colour, marker = plotting.series_style(methods, method)
            xs = [steps.index(s) + 0.05 * (i - len(methods) / 2) for s in groups]
            intervals = [plotting.accuracy_interval(same) for same in groups.values()]
            axis.errorbar(
                xs, [m for m, _ in intervals], yerr=[h for _, h in intervals], color=colour, marker=marker, markersize=5,
                linewidth=1.4, elinewidth=0.8, capsize=2, label=method,
            )  # fmt: skip
        axis.set_xticks(range(len(steps)), [str(s) for s in steps])
    return plotting.finish_figure(figure, "bars: 95% interval over seeds")


def curves(rows: Sequence[Row]) -> bytes:
    """Plot test accuracy against training step, one panel per dataset and one line per method."""
    methods = plotting.setting_values(rows, "method")
    figure, panels = _dataset_panels(rows, "training step", "test accuracy, %")
    for axis, name in panels:
        for method in methods:
            lines = [r["result"]["curve"] for r in plotting.select_rows(rows, dataset=name, method=method)]
            if not lines:
                continue
            colour, marker = plotting.series_style(methods, method)
            for line in lines:
                axis.plot(
                    [s for s, _ in line], [100 * a for _, a in line], color=colour, alpha=0.25, linewidth=0.9
                )
            seeds = [dict(line) for line in lines]
            steps = [s for s in seeds[0] if all(s in one for one in seeds)]  # one may have ended early
            means = [100 * sum(one[s] for one in seeds) / len(seeds) for s in steps]
            axis.plot(steps, means, color=colour, marker=marker, markersize=4, linewidth=1.8, label=method)
        axis.set_xscale("symlog", linthresh=1)
        axis.set_xlim(left=0)
        ticks = sorted({s for r in plotting.select_rows(rows, dataset=name) for s, _ in r["result"]["curve"]})
        axis.set_xticks(ticks, [str(int(t)) for t in ticks], fontsize=8)
        axis.minorticks_off()
    return plotting.finish_figure(figure, "thin: one seed; thick: their mean")


def film(rows: Sequence[Row]) -> bytes:
    """Plot boxes of |γ − 1| and |β| by layer, one row per dataset: the first FiT-LDA run with the most shots."""
    datasets = [name for name in plotting.setting_values(rows, "dataset") if _with_film(rows, name)]
    sites = len({k.rpartition(".")[0] for k in _with_film(rows, datasets[0])[0]["result"]["film"]})
    width = max(9.0, 0.44 * sites + 2)
    figure, axes = plotting.make_grid(len(datasets), 2, (width, 2.3 * len(datasets) + 1.2), sharey="col")
    for row, name in zip(axes, datasets, strict=True):
        quantiles = _with_film(rows, name)[0]["result"]["film"]
        for axis, part, label, colour in zip(
            row, ("gamma", "beta"), ("|γ − 1|", "|β|"), FILM_COLOURS, strict=True
        ):
            boxes = [
                {"label": "", "whislo": q[1], "q1": q[1], "med": q[2], "q3": q[3], "whishi": q[3]}
                for key, q in quantiles.items()
                if key.endswith(part)
            ]
            drawn = axis.bxp(boxes, showfliers=False, showcaps=False, patch_artist=True, widths=0.6)
            for box in drawn["boxes"]:
                box.set(facecolor=colour, alpha=0.45, edgecolor=colour)
            for line in drawn["medians"]:
                line.set(color=INK)
            axis.set_title(f"{name}: {label}", loc="left", fontsize=11, color=INK)
            axis.set_xticks(range(1, len(boxes) + 1), [str(i) for i in range(1, len(boxes) + 1)], fontsize=8)
            axis.set_ylim(bottom=0)
    figure.supxlabel("FiLM layer, from the image to the head (box: quartiles, line: median)", fontsize=10)
    return plotting.figure_png(figure)


def bodies(rows: Sequence[Row]) -> bytes:
    """Plot bars of LDA and linear head by trained parameters of the backbone: the mean over the datasets."""
    datasets = [
        {r["settings"]["dataset"] for r in same}
        for head in HEADS
        for body in BODIES
        if (same := plotting.select_rows(rows, method=f"{head}-{body}"))
    ]
    rows = [r for r in rows if all(r["settings"]["dataset"] in common for common in datasets)]  # in every bar
    figure, (axis,) = plotting.make_panels(1)
    for i, head in enumerate(HEADS):
        means = [_mean_over_datasets(plotting.select_rows(rows, method=f"{head}-{b}")) for b in BODIES]
        present = {
            position + 0.38 * (i - 0.5): mean for position, mean in enumerate(means) if mean is not None
        }
        colour = plotting.COLOURS[i]
        bars = axis.bar([*present], [*present.values()], 0.34, color=colour, label=head, alpha=0.85)
        axis.bar_label(bars, fmt="%.1f", fontsize=9)
    axis.set_xticks(range(len(BODIES)), list(BODIES.values()))
    axis.set_xlabel("trained parameters of the backbone")
    axis.set_ylabel("mean accuracy, %")
    names = ", ".join(plotting.setting_values(rows, "dataset"))
    return plotting.finish_figure(figure, f"mean over {names}")


def splits(rows: Sequence[Row]) -> bytes:
    """Plot bars of accuracy by the split of the images in the episodes, one panel per dataset and head."""
    heads, datasets = plotting.setting_values(rows, "method"), plotting.setting_values(rows, "dataset")
    splits = [s for s in SPLITS if plotting.select_rows(rows, split=s)]
    steps = plotting.setting_values(rows, "shots")
    inches = (4.6 * len(datasets), 2.9 * len(heads))
    figure, axes = plotting.make_grid(len(heads), len(datasets), inches, sharey="col")
    for row, method in zip(axes, heads, strict=True):
        for axis, name in zip(row, datasets, strict=True):
            for i, split in enumerate(splits):
                groups = plotting.group_rows(rows, "shots", dataset=name, method=method, split=split)
                xs = [steps.index(s) + 0.8 * (i + 0.5) / len(splits) - 0.4 for s in groups]
                intervals = [plotting.accuracy_interval(same) for same in groups.values()]
                axis.bar(
                    xs, [m for m, _ in intervals], 0.72 / len(splits), yerr=[h for _, h in intervals], color=plotting.COLOURS[i],
                    alpha=0.8, ecolor=INK, error_kw={"elinewidth": 0.8}, capsize=2, label=SPLITS[split],
                )  # fmt: skip
            axis.set_xticks(range(len(steps)), [str(s) for s in steps])
            axis.set_title(f"{method} on {name}", loc="left", fontsize=11, color=INK)
            low = min(
                (100 * r["result"]["accuracy"] for r in plotting.select_rows(rows, dataset=name)), default=0
            )
            axis.set_ylim(bottom=max(0, low - 8))
        row[0].set_ylabel("accuracy, %")
    for axis in axes[-1]:
        axis.set_xlabel("shots per class")
    return plotting.finish_figure(figure, "bars: 95% interval over seeds; the axis does not begin at 0")


# Each figure with whether a row, by its settings and result, belongs in it.
FIGURES: dict[str, tuple[Draw, Condition]] = {
    "size": (size, lambda settings, result: "shots" in settings and "numbers" in result),
    "shots": (shots, lambda settings, _: "shots" in settings),
    "curves": (curves, lambda settings, result: result.get("curve") and not is_federated(settings)),
    "film": (film, lambda _, result: result.get("film")),
    "bodies": (bodies, lambda settings, _: settings["method"] in [f"{h}-{b}" for h in HEADS for b in BODIES]),
    "splits": (splits, lambda settings, _: "shots" in settings and settings.get("split") in SPLITS),
    "communication": (communication, has_curve),
    "spread": (spread, has_clients),
}


def draw_figure(name: str, rows: Sequence[Row]) -> bytes | None:
    """Draw a figure by name; return None if no row has what it shows."""
    draw, belongs = FIGURES[name]
    usable = [r for r in rows if belongs(r["settings"], r["result"])]
    return draw(usable) if usable else None


def _dataset_panels(
    rows: Sequence[Row], xlabel: str, ylabel: str = "accuracy, %"
) -> tuple[Figure, list[tuple[Axes, str]]]:
    """Create one panel per dataset, with title and labels."""
    datasets = plotting.setting_values(rows, "dataset")
    figure, axes = plotting.make_panels(len(datasets))
    for axis, name in zip(axes, datasets, strict=True):
        axis.set_title(name, loc="left", fontsize=11, color=INK)
        axis.set_xlabel(xlabel)
    axes[0].set_ylabel(ylabel)
    return figure, list(zip(axes, datasets, strict=True))


def _mean_over_datasets(rows: Sequence[Row]) -> float | None:
    means = [
        plotting.accuracy_interval(plotting.select_rows(rows, dataset=name))[0]
        for name in plotting.setting_values(rows, "dataset")
    ]
    return sum(means) / len(means) if means else None


def _with_film(rows: Sequence[Row], name: str) -> list[Row]:
    """Return the rows with changed FiLM parameters, those with the most images first."""
    with_film = [r for r in plotting.select_rows(rows, dataset=name) if r["result"].get("film")]
    changed = [r for r in with_film if r["result"].get("share") != 0]  # 0: interpolated back to the start
    preferred = [r for r in changed if r["settings"]["method"] == "FiT-LDA"] or changed
    return sorted(preferred, key=lambda r: (-r["result"]["images"], r["settings"]["seed"]))
