"""Sizes and settings: what is needed to train the same classifier again."""

from __future__ import annotations

from ...formatting import capitalize, count, file_size
from ...heads import HEADS
from ...training.finetune.outcome import describe_stop
from ..markup import Markup, join, paragraph, table, tag
from ..report_data import ReportData
from . import Section

MAX_SKIPPED = 20
MAX_VALUES = 8


def section(data: ReportData) -> Section:
    """Return the section on sizes and settings."""
    update, head = data.update, HEADS[data.update.head]
    photos = f"{sum(update.counts):,} training photos, {_range(update.counts)} each"
    weights = tag("span", update.backbone, " (weights ", tag("code", update.backbone_digest[:12]), "…)")
    on_disk = f", {file_size(data.file_bytes)} on disk" if data.file_bytes else ""
    rows: list[list[str | int | None]] = [
        ["classes and photos", f"{len(update.classes)} classes, {photos}"],
        ["backbone", weights],
        ["head", head.description],
        ["image size", f"{update.pixels.size} × {update.pixels.size} pixels"],
        ["fine-tuning", _fine_tuning(data)],
        ["trained parameters", f"{update.stored_parameters():,}{on_disk}"],
        ["head weights", head.describe_weights(update.head_weights)],
        ["temperature", f"{update.temperature:.3g}"],
        ["class prior", _text(update.settings.get("prior", "uniform"))],
        ["seed", update.seed],
        ["versions", ", ".join(f"{k} {v}" for k, v in update.versions.items())],
    ]
    if update.edits:
        rows.append(["edited after training", count(len(update.edits), "time")])
    settings = [[key, _text(value)] for key, value in sorted(update.settings.items()) if value is not None]
    pieces: list[Markup] = [
        table(["", ""], rows, "Table of sizes and settings", class_="facts"),
        tag(
            "details",
            tag("summary", "All settings"),
            table(["setting", "value"], settings, "All settings", class_="facts"),
        ),
    ]
    if data.skipped:
        lines = [tag("li", s.name, ": ", s.reason) for s in data.skipped[:MAX_SKIPPED]]
        rest = len(data.skipped) - MAX_SKIPPED
        pieces += [
            tag("h3", "Skipped files"),
            paragraph(f"{capitalize(count(len(data.skipped), 'file'))} could not be used:"),
            tag("ul", *lines, tag("li", f"and {rest:,} more") if rest > 0 else None),
        ]
    return Section("facts", "Sizes and settings", join(*pieces))


def _range(counts: list[int]) -> str:
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def _fine_tuning(data: ReportData) -> str:
    results = data.update.results
    steps = results.get("steps", 0)
    stopped = describe_stop(results.get("stopped", ""), steps)
    if not steps:
        return f"none{stopped}"
    duration = "" if data.seconds is None else f" in {data.seconds:.0f} s"
    kept = f", {100 * results['share']:.0f}% of the change kept" if "share" in results else ""
    return f"{count(steps, 'step')}{duration}{stopped}{kept}"


def _text(value: object) -> str:
    if isinstance(value, list) and len(value) > MAX_VALUES:
        return ", ".join(f"{v:.3g}" for v in value[:MAX_VALUES]) + f", … ({len(value)})"
    return str(value)
