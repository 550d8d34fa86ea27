"""Figures of federated runs: accuracy against communication with the bounds, and the accuracy of single clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..report.figures import INK, MUTED
from .federated_settings import bound_of, is_federated
from .federated_tables import METRICS, Variant, group_by_task, list_variants, select_bound, select_variant
from .plotting import COLOURS, finish_figure, make_grid, select_rows, series_style, setting_values
from .rows import Row, RunResult, RunSettings, quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BOUND_STYLES = {"upper": ((0, (5, 2.5)), "upper bound"), "lower": ((0, (1, 1.6)), "lower bound")}
BOX_STYLES = {
    "lower": ("lower bound", "#94a3b8"),
    "federated": ("federated", COLOURS[0]),
    "upper": ("upper bound", "#334155"),
}
UNITS = ((1e9, "billions of "), (1e6, "millions of "), (1e3, "thousands of "), (1.0, ""))
MAX_LINEAR_RATIO = 30  # of the communication of two curves; beyond it the axis is logarithmic


class VariantRows(NamedTuple):
    """The runs of a method and variant, and the bounds, which all variants of a method share."""

    dataset: str
    label: str
    federations: list[Row]
    bounds: list[Row]
    colour_bounds: bool  # in the colour of the curve: nothing else has these bounds


class CommunicationAxis(NamedTuple):
    """The x-axis of the communication: the key in a curve, its unit, its label and whether it is logarithmic."""

    key: str
    unit: float
    label: str
    logarithmic: bool


def has_curve(settings: RunSettings, result: RunResult) -> bool:
    """Return whether a run is a federation with evaluated rounds, or a bound."""
    return is_federated(settings) and (bound_of(settings) != "federated" or bool(result.get("curve")))


def has_clients(settings: RunSettings, result: RunResult) -> bool:
    """Return whether a run has the accuracy of single clients."""
    return is_federated(settings) and bool(result.get("clients_accuracy"))


def communication(rows: Sequence[Row]) -> bytes | None:
    """Plot accuracy against communication, one panel for each number of clients and metric.

    Colours are for the shots, as in the paper; where methods or variants are compared, colours are for them, and each
    number of shots has its own panels.
    """
    panels = _panels(rows)
    if not panels:
        return None
    counts = setting_values(rows, "clients")
    labels = list(dict.fromkeys(curve.label for _, _, curves in panels for curve in curves))
    x = _communication_axis(select_bound(rows, "federated"))
    figure, axes = _client_grid(counts, len(panels), 3.1, 2.35, x.label)
    for across, (title, name, curves) in zip(axes, panels, strict=True):
        for axis, clients in zip(across, counts, strict=True):
            for curve in curves:
                colour, marker = series_style(labels, curve.label)
                _draw_bounds(axis, curve, clients, name, colour if curve.colour_bounds else MUTED)
                points = _points(select_rows(curve.federations, clients=clients), x, name)
                if points.size:
                    _draw_curve(axis, points, colour, marker, curve.label)
        across[0].set_ylabel(f"{title} accuracy, %")
    if x.logarithmic:
        axes[0][0].set_xscale("log")  # of all panels
    else:
        axes[0][0].set_xlim(left=0)
    bounds = [row for _, _, curves in panels for curve in curves for row in curve.bounds]
    for bound, (style, label) in BOUND_STYLES.items():
        if select_bound(bounds, bound):
            axes[0][0].plot([], [], color=MUTED, linestyle=style, linewidth=1.2, label=label)
    return finish_figure(
        figure,
        "solid: mean of the seeds; band: lowest to highest seed; communication: both directions, all rounds",
    )


def spread(rows: Sequence[Row]) -> bytes | None:
    """Plot the personalized accuracy of single clients, one panel for each number of clients."""
    groups, counts = _variant_rows(rows), setting_values(rows, "clients")
    shots = setting_values(rows, "shots")
    figure, axes = _client_grid(counts, len(groups), 3.4, 2.8, "shots per class")
    for across, group in zip(axes, groups, strict=True):
        own = [*group.federations, *group.bounds]
        bounds = [bound for bound in BOX_STYLES if select_bound(own, bound)]
        for axis, clients in zip(across, counts, strict=True):
            for position, shot in enumerate(shots):
                for i, bound in enumerate(bounds):
                    same = select_rows(select_bound(own, bound), clients=clients, shots=shot)
                    values = [100 * a for r in same for a in r["result"]["clients_accuracy"]]
                    if values:
                        offset = 0.27 * (i - (len(bounds) - 1) / 2)
                        _draw_clients(axis, position + offset, values, *BOX_STYLES[bound])
            axis.set_xticks(range(len(shots)), [str(s) for s in shots])
            axis.set_xlim(-0.5, len(shots) - 0.5)
        title = f"{group.dataset}, {group.label}\n" if len(groups) > 1 else ""
        across[0].set_ylabel(f"{title}accuracy of a client, %")
    return finish_figure(
        figure, "a dot: one client of one seed; box: quartiles and median; whiskers: 5% to 95%; diamond: mean"
    )


def _client_grid(
    counts: Sequence[int], rows: int, width: float, height: float, xlabel: str
) -> tuple[Figure, np.ndarray]:
    """Create rows of panels, with a column for each number of clients."""
    inches = (max(6.4, width * len(counts) + 0.6), height * rows + 1.2)
    figure, axes = make_grid(rows, len(counts), inches, sharex=True, sharey="row")
    for top, bottom, clients in zip(axes[0], axes[-1], counts, strict=True):
        top.set_title(quantity(clients, "client"), loc="left", fontsize=11, color=INK)
        bottom.set_xlabel(xlabel)
    return figure, axes


def _variant_rows(rows: Sequence[Row]) -> list[VariantRows]:
    groups = []
    for (dataset, method), same in group_by_task(rows).items():
        variants = list_variants(same)
        # FedProx is not shown where FedAvg is: the curves coincide, and it would double the panels.
        variants = [
            v for v in variants if v.algorithm != "fedprox" or v._replace(algorithm="fedavg") not in variants
        ]
        bounds = [row for row in same if bound_of(row["settings"]) != "federated"]
        for variant in variants:
            label = f"{method}, {variant.label(variants)}" if len(variants) > 1 else method
            own = select_variant(same, variant)
            groups.append(VariantRows(dataset, label, own, bounds, len(variants) == 1))
        if not variants:
            groups.append(VariantRows(dataset, method, [], bounds, True))
    return groups


def _panels(rows: Sequence[Row]) -> list[tuple[str, str, list[VariantRows]]]:
    """Return the rows of panels: title, key in a result, and curves."""
    panels = []
    groups = [group for group in _variant_rows(rows) if group.federations]
    datasets, shots = list(dict.fromkeys(group.dataset for group in groups)), setting_values(rows, "shots")
    for dataset in datasets:
        own = [group for group in groups if group.dataset == dataset]
        prefix = f"{dataset}\n" if len(datasets) > 1 else ""
        for metric, name in METRICS.items():
            measured = [
                group
                for group in own
                if any(p.get(name) is not None for r in group.federations for p in r["result"]["curve"])
            ]
            curves = [
                [_curve_rows(group, shot, "" if len(own) == 1 else group.label) for group in measured]
                for shot in shots
            ]
            if len(own) == 1 and measured:
                panels.append((f"{prefix}{metric}", name, [curve for part in curves for curve in part]))
            elif len(measured) > 1:  # BiT has no personalized accuracy: nothing to compare
                panels += [
                    (f"{prefix}{quantity(shot, 'shot')}\n{metric}", name, part)
                    for shot, part in zip(shots, curves, strict=True)
                ]
    return panels


def _curve_rows(group: VariantRows, shot: object, label: str) -> VariantRows:
    """Return the rows of a curve, labelled by the shots, or by what is compared."""
    return VariantRows(
        group.dataset,
        label or quantity(shot, "shot"),
        select_rows(group.federations, shots=shot),
        select_rows(group.bounds, shots=shot),
        not label or group.colour_bounds,
    )


def _communication_axis(rows: Sequence[Row]) -> CommunicationAxis:
    """Return the axis: bytes where compressions are compared, else parameters."""
    compressions = {Variant.from_row(row).compression for row in rows}
    key = "bytes" if len(compressions) > 1 else "parameters"
    totals = [row["result"]["curve"][-1][key] for row in rows]
    if max(totals) > MAX_LINEAR_RATIO * min(totals) > 0:
        return CommunicationAxis(key, 1.0, f"{key} sent", True)
    unit, prefix = next((pair for pair in UNITS if max(totals) >= pair[0]), UNITS[-1])
    return CommunicationAxis(key, unit, f"{prefix}{key} sent", False)


def _points(rows: Sequence[Row], x: CommunicationAxis, name: str) -> np.ndarray:
    """Return seeds × rounds × (communication, accuracy) of the rounds that every seed has."""
    curves = [
        {
            p["round"]: (p[x.key] / x.unit, 100 * p[name])
            for p in r["result"]["curve"]
            if p.get(name) is not None
        }
        for r in rows
    ]
    rounds = sorted(set.intersection(*map(set, curves))) if curves else []
    points = np.array([[curve[r] for r in rounds] for curve in curves])
    if x.logarithmic and points.size:  # which has no zero
        points = points[:, (points[:, :, 0] > 0).all(0)]
    return points


def _draw_bounds(axis: Axes, curve: VariantRows, clients: object, name: str, colour: str) -> None:
    for bound, (style, _) in BOUND_STYLES.items():
        same = select_rows(select_bound(curve.bounds, bound), clients=clients)
        if values := [r["result"][name] for r in same if r["result"].get(name) is not None]:
            level = 100 * float(np.mean(values))
            axis.axhline(level, color=colour, linestyle=style, linewidth=1.2, zorder=1.5)


def _draw_curve(axis: Axes, points: np.ndarray, colour: str, marker: str, label: str) -> None:
    sent, accuracy = points[:, :, 0].mean(0), points[:, :, 1]
    axis.fill_between(sent, accuracy.min(0), accuracy.max(0), color=colour, alpha=0.2, linewidth=0)
    axis.plot(
        sent, accuracy.mean(0), linewidth=1.7, markersize=4.5, markevery=[len(sent) - 1], color=colour,
        marker=marker, label=label,
    )  # fmt: skip


def _draw_clients(axis: Axes, position: float, values: Sequence[float], label: str, colour: str) -> None:
    """Draw a dot per client, and a box."""
    jitter = np.random.default_rng(0).uniform(-0.085, 0.085, len(values))  # the same in every figure
    axis.scatter(
        position + jitter, values, s=7 if len(values) < 400 else 3, color=colour, linewidths=0,
        alpha=max(0.12, min(0.55, 40 / len(values))),
    )  # fmt: skip
    box = axis.boxplot(
        [values], positions=[position], widths=0.2, whis=(5, 95), showfliers=False, showcaps=False, showmeans=True,
        manage_ticks=False, patch_artist=True,
        boxprops={"facecolor": "none", "edgecolor": colour, "linewidth": 1.2},
        medianprops={"color": colour, "linewidth": 1.8}, whiskerprops={"color": colour, "linewidth": 1.0},
        meanprops={"marker": "D", "markersize": 3.6, "markerfacecolor": "white", "markeredgecolor": colour},
    )  # fmt: skip
    box["boxes"][0].set_label(label)
