"""Figures of federated runs: accuracy against what was sent, between the bounds; and the single clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .federated import SETTINGS, Variant, at, of, tasks, variants
from .federations import bound_of, is_federated
from .plotting import (
    COLOURS,
    INK,
    MUTED,
    finish_figure,
    load_pyplot,
    select_rows,
    series_style,
    setting_values,
    style_axis,
)
from .rows import Row

LINES = {"upper": ((0, (5, 2.5)), "upper bound"), "lower": ((0, (1, 1.6)), "lower bound")}
BOXES = {
    "lower": ("lower bound", "#94a3b8"),
    "federated": ("federated", COLOURS[0]),
    "upper": ("upper bound", "#334155"),
}
UNITS = ((1e9, "billions of "), (1e6, "millions of "), (1e3, "thousands of "), (1.0, ""))
FAR = 30  # times as much sent: too far apart for an axis that begins at zero


class Kind(NamedTuple):
    """One method, federated in one way: its federations, and the bounds that it shares with its other ways."""

    dataset: str
    words: str
    federations: list[Row]
    bounds: list[Row]
    alone: bool  # there is no other way to federate this method


class Line(NamedTuple):
    """What one curve and its bounds are drawn from."""

    label: str
    federations: list[Row]
    bounds: list[Row]
    own_bounds: bool  # in the colour of the curve


def has_curve(settings: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    """A federation with its rounds, or a bound, which has none."""
    return is_federated(settings) and (bound_of(settings) != "federated" or bool(result.get("curve")))


def has_clients(settings: Mapping[str, Any], result: Mapping[str, Any]) -> bool:
    return is_federated(settings) and bool(result.get("clients_accuracy"))


def communication(rows: Sequence[Row]) -> bytes | None:
    """Accuracy against what was sent, a panel for each number of clients and setting.

    The colour is for the shots, as in the paper; where methods or ways to federate are compared it is for them, and
    each number of shots has panels of its own.
    """
    panels = _panels(rows)
    if not panels:
        return None
    counts = setting_values(rows, "clients")
    labels = list(dict.fromkeys(line.label for _, _, lines in panels for line in lines))
    x, scale, words, far = _sent(at(rows, "federated"))
    figure, axes = load_pyplot().subplots(
        len(panels), len(counts), figsize=(max(6.4, 3.1 * len(counts) + 0.6), 2.35 * len(panels) + 1.2),
        squeeze=False, sharex=True, sharey="row", layout="constrained",
    )  # fmt: skip
    for across, (title, name, lines) in zip(axes, panels, strict=True):
        for axis, clients in zip(across, counts, strict=True):
            style_axis(axis)
            for line in lines:
                colour, mark = series_style(labels, line.label)
                for bound, (style, _) in LINES.items():
                    found = select_rows(at(line.bounds, bound), clients=clients)
                    if level := [r["result"][name] for r in found if r["result"].get(name) is not None]:
                        axis.axhline(
                            100 * float(np.mean(level)), color=colour if line.own_bounds else MUTED,
                            linestyle=style, linewidth=1.2, zorder=1.5,
                        )  # fmt: skip
                points = _points(select_rows(line.federations, clients=clients), x, scale, name)
                if far and points.size:
                    points = points[:, (points[:, :, 0] > 0).all(0)]
                if points.size:
                    _curve(axis, points, color=colour, marker=mark, label=line.label)
        across[0].set_ylabel(f"{title} accuracy, %")
    if far:
        axes[0][0].set_xscale("log")  # of all panels; nothing sent is not on it
    else:
        axes[0][0].set_xlim(left=0)
    for axis, clients in zip(axes[0], counts, strict=True):
        axis.set_title(f"{clients} clients", loc="left", fontsize=11, color=INK)
    for axis in axes[-1]:
        axis.set_xlabel(words)
    drawn = {bound for _, _, lines in panels for line in lines for bound in LINES if at(line.bounds, bound)}
    for bound, (style, label) in LINES.items():
        if bound in drawn:
            axes[0][0].plot([], [], color=MUTED, linestyle=style, linewidth=1.2, label=label)
    return finish_figure(
        figure, "solid: mean of the seeds; band: lowest to highest seed; sent: both ways, over all rounds"
    )


def spread(rows: Sequence[Row]) -> bytes | None:
    """How the clients differ: their personalized accuracy, a panel for each number of clients."""
    kinds, counts, shots = _kinds(rows), setting_values(rows, "clients"), setting_values(rows, "shots")
    figure, axes = load_pyplot().subplots(
        len(kinds), len(counts), figsize=(max(6.4, 3.4 * len(counts) + 0.6), 2.8 * len(kinds) + 1.2),
        squeeze=False, sharex=True, sharey="row", layout="constrained",
    )  # fmt: skip
    for across, kind in zip(axes, kinds, strict=True):
        every = [*kind.federations, *kind.bounds]
        some = [bound for bound in BOXES if at(every, bound)]
        for axis, clients in zip(across, counts, strict=True):
            style_axis(axis)
            for place, shot in enumerate(shots):
                for i, bound in enumerate(some):
                    found = select_rows(at(every, bound), clients=clients, shots=shot)
                    each = [100 * a for r in found for a in r["result"]["clients_accuracy"]]
                    if each:
                        _strip(axis, place + 0.27 * (i - (len(some) - 1) / 2), each, *BOXES[bound])
            axis.set_xticks(range(len(shots)), [str(s) for s in shots])
            axis.set_xlim(-0.5, len(shots) - 0.5)
        title = f"{kind.dataset}, {kind.words}\n" if len(kinds) > 1 else ""
        across[0].set_ylabel(f"{title}accuracy of a client, %")
    for axis, clients in zip(axes[0], counts, strict=True):
        axis.set_title(f"{clients} clients", loc="left", fontsize=11, color=INK)
    for axis in axes[-1]:
        axis.set_xlabel("shots per class")
    return finish_figure(
        figure, "a dot: one client of one seed; box: quartiles and median; whiskers: 5% to 95%; diamond: mean"
    )


def _kinds(rows: Sequence[Row]) -> list[Kind]:
    found = []
    for (dataset, method), same in tasks(rows).items():
        ways = _worth_drawing(variants(same))
        bounds = [row for row in same if bound_of(row["settings"]) != "federated"]
        for way in ways:
            words = f"{method}, {way.words(ways)}" if len(ways) > 1 else method
            found.append(Kind(dataset, words, of(same, way), bounds, len(ways) == 1))
        if not ways:
            found.append(Kind(dataset, method, [], bounds, True))
    return found


def _worth_drawing(ways: list[Variant]) -> list[Variant]:
    """Without FedProx beside FedAvg: its curve lies on the other's, and it would double the panels."""
    return [way for way in ways if way.algorithm != "fedprox" or way._replace(algorithm="fedavg") not in ways]


def _panels(rows: Sequence[Row]) -> list[tuple[str, str, list[Line]]]:
    """Rows of panels: what they show, where a result has it, and the curves."""
    found = []
    kinds = [kind for kind in _kinds(rows) if kind.federations]
    sets, shots = list(dict.fromkeys(kind.dataset for kind in kinds)), setting_values(rows, "shots")
    for dataset in sets:
        own = [kind for kind in kinds if kind.dataset == dataset]
        before = f"{dataset}\n" if len(sets) > 1 else ""
        for setting, name in SETTINGS.items():
            able = [
                k
                for k in own
                if any(p.get(name) is not None for r in k.federations for p in r["result"]["curve"])
            ]
            lines = [[_line(k, shot, "" if len(own) == 1 else k.words) for k in able] for shot in shots]
            if len(own) == 1 and able:
                found.append((f"{before}{setting}", name, [line for part in lines for line in part]))
            elif len(able) > 1:  # BiT has no personalized accuracy: nothing to compare
                found += [
                    (f"{before}{shot} shots\n{setting}", name, part)
                    for shot, part in zip(shots, lines, strict=True)
                ]
    return found


def _line(kind: Kind, shot: Any, words: str) -> Line:
    """Named after the shots, or after what is compared."""
    return Line(
        words or f"{shot} shots",
        select_rows(kind.federations, shots=shot),
        select_rows(kind.bounds, shots=shot),
        not words or kind.alone,
    )


def _sent(rows: Sequence[Row]) -> tuple[str, float, str, bool]:
    """What to count (compressed numbers are as many, but smaller), in which unit, its name, and if by powers of ten."""
    squeezed = len({Variant.of(row).compression for row in rows}) > 1
    x, words = ("bytes", "bytes sent") if squeezed else ("parameters", "numbers sent")
    ends = [row["result"]["curve"][-1][x] for row in rows]
    if max(ends) > FAR * min(ends) > 0:
        return x, 1.0, words, True
    scale, unit = next((pair for pair in UNITS if max(ends) >= pair[0]), UNITS[-1])
    return x, scale, unit + words, False


def _points(rows: Sequence[Row], x: str, scale: float, name: str) -> np.ndarray:
    """Seeds × rounds × (sent, accuracy), of the rounds that every seed has: one may have been stopped early."""
    lines = [
        {p["round"]: (p[x] / scale, 100 * p[name]) for p in r["result"]["curve"] if p.get(name) is not None}
        for r in rows
    ]
    rounds = sorted(set.intersection(*map(set, lines))) if lines else []
    return np.array([[line[r] for r in rounds] for line in lines])


def _curve(axis: Any, points: np.ndarray, **look: Any) -> None:
    sent, accuracy = points[:, :, 0].mean(0), points[:, :, 1]
    axis.fill_between(sent, accuracy.min(0), accuracy.max(0), color=look["color"], alpha=0.2, linewidth=0)
    axis.plot(sent, accuracy.mean(0), linewidth=1.7, markersize=4.5, markevery=[len(sent) - 1], **look)


def _strip(axis: Any, place: float, values: Sequence[float], label: str, colour: str) -> None:
    aside = np.random.default_rng(0).uniform(-0.085, 0.085, len(values))  # the same at every drawing
    axis.scatter(
        place + aside, values, s=7 if len(values) < 400 else 3, color=colour, linewidths=0,
        alpha=max(0.12, min(0.55, 40 / len(values))),
    )  # fmt: skip
    box = axis.boxplot(
        [values], positions=[place], widths=0.2, whis=(5, 95), showfliers=False, showcaps=False, showmeans=True,
        manage_ticks=False, patch_artist=True,
        boxprops={"facecolor": "none", "edgecolor": colour, "linewidth": 1.2},
        medianprops={"color": colour, "linewidth": 1.8}, whiskerprops={"color": colour, "linewidth": 1.0},
        meanprops={"marker": "D", "markersize": 3.6, "markerfacecolor": "white", "markeredgecolor": colour},
    )  # fmt: skip
    box["boxes"][0].set_label(label)
