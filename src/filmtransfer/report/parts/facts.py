"""Sizes and settings: what is needed to make the same classifier again."""

from __future__ import annotations

from typing import Any

from ...formatting import count, file_size
from ..markup import Markup, join, paragraph, table, tag
from ..subject import Subject
from . import Section

HEADS = {
    "lda": "LDA: Gaussians with one covariance",
    "qda": "QDA: Gaussians with a covariance each",
    "protonets": "ProtoNets: nearest mean",
    "linear": "linear",
}
STOPPED = {
    "interrupted": ", stopped by you",
    "time limit": ", stopped by the time limit",
    "not finite": ", stopped at numbers that were not finite",
    "one-shot": ": one photo of each class leaves nothing to fine-tune on",
}
SKIPPED = 20


def part(subject: Subject) -> Section:
    update = subject.update
    results = update.results
    rows: list[list[str | int | None]] = [
        [
            "classes and photos",
            f"{len(update.classes)} classes, {sum(update.counts):,} photos learned from, {_range(update.counts)} each",
        ],
        [
            "backbone",
            tag("span", update.backbone, " (weights ", tag("code", update.backbone_digest[:12]), "…)"),
        ],
        ["head", HEADS.get(update.head, update.head)],
        ["image size", f"{update.pixels.size} × {update.pixels.size} pixels"],
        ["fine-tuning", _tuning(subject, results)],
        [
            "learned numbers",
            f"{update.numbers():,}" + (f", {file_size(subject.stored)} on disk" if subject.stored else ""),
        ],
        [
            "covariance weights e",
            "none"
            if update.covariance_weights is None
            else ", ".join(f"{e:.3f}" for e in update.covariance_weights.exp().tolist()),
        ],
        ["temperature", f"{update.temperature:.3g}"],
        ["prior", _word(update.settings.get("prior", "uniform"))],
        ["seed", update.seed],
        ["versions", ", ".join(f"{k} {v}" for k, v in update.versions.items())],
    ]
    if update.edits:
        rows.append(["changed after training", count(len(update.edits), "time")])
    settings = [[key, _word(value)] for key, value in sorted(update.settings.items()) if value is not None]
    pieces: list[Markup] = [
        table(["", ""], rows, "Table of sizes and settings", class_="facts"),
        tag(
            "details",
            tag("summary", "All settings"),
            table(["setting", "value"], [list(row) for row in settings], "All settings", class_="facts"),
        ),
    ]
    if subject.skipped:
        lines = [tag("li", s.name, ": ", s.reason) for s in subject.skipped[:SKIPPED]]
        rest = len(subject.skipped) - SKIPPED
        pieces += [
            tag("h3", "Files that were left out"),
            paragraph(f"{count(len(subject.skipped), 'file')} could not be used:"),
            tag("ul", *lines, tag("li", f"and {rest:,} more") if rest > 0 else None),
        ]
    return Section("facts", "Sizes and settings", join(*pieces))


def _range(counts: list[int]) -> str:
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _tuning(subject: Subject, results: dict[str, Any]) -> str:
    steps = results.get("steps", 0)
    took = "" if subject.seconds is None or not steps else f" in {subject.seconds:.0f} s"
    share = f", {100 * results['share']:.0f}% of the way kept" if steps and "share" in results else ""
    return (f"{steps} steps{took}{share}" if steps else "none") + STOPPED.get(results.get("stopped", ""), "")


def _word(value: Any) -> str:
    if isinstance(value, list) and len(value) > 8:
        return ", ".join(f"{v:.3g}" for v in value[:8]) + f", … ({len(value)})"
    return str(value)
