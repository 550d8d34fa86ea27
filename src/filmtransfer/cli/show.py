"""fit show FILE | --backbone NAME"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import UpdateFileError, UsageError
from ..formatting import file_size
from .printing import Json, Printer


def show(
    file: Annotated[Path | None, typer.Argument(help="An update file.")] = None,
    backbone: Annotated[str | None, typer.Option(help="Show the counts of a backbone instead.")] = None,
    classes: Annotated[int, typer.Option(help="Number of classes C for --backbone.", min=2)] = 10,
    plot: Annotated[
        Path | None, typer.Option(help="Write box plots of |γ−1| and |β| by layer (PNG).")
    ] = None,
    photos: Annotated[
        bool, typer.Option("--photos", help="List the photos whose statistics it keeps.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what an update file holds, or a backbone's counts."""
    printer = Printer(as_json)
    if (file is None) == (backbone is None):
        raise UsageError("Give an update file or --backbone NAME.", "For example: fit show pets.safetensors")
    if file is not None:
        _show_file(printer, file, plot, photos)
    elif plot is not None:
        raise UsageError("--plot shows the FiLM numbers of an update file.", "Give the file.")
    else:
        assert backbone is not None
        table = counts_table(backbone, classes)
        printer.say(f"{backbone}, C = {classes}: shared and updateable numbers")
        _print_counts(printer, table)
        stages = stages_table(backbone)
        printer.say()
        printer.table(
            ["stage", "name", "FiLM sites", "FiLM numbers with --film-from stage"],
            [[r["stage"], r["name"], r["sites"], f"{r['film_from']:,}"] for r in stages],
            right=(0, 2, 3),
        )
        printer.document({"backbone": backbone, "classes": classes, "methods": table, "stages": stages})


def counts_table(backbone: str, classes: int) -> list[dict[str, Any]]:
    """The paper's table 'Shared and updateable parameters', for any backbone and C."""
    from ..backbones import backbone_facts
    from ..heads import LDA, QDA, ProtoNets

    known = backbone_facts(backbone)
    full = known.parameters + classes * known.features  # BiT: every weight, and a head of C·D
    rows = [{"method": "full fine-tuning (BiT)", "shared": 0, "updateable": full, "rmus": 1.0}]
    for name, head in (("FiT-QDA", QDA), ("FiT-LDA", LDA), ("FiT-ProtoNets", ProtoNets)):
        updateable = known.film_parameters + head.updateable(classes, known.features)
        rows.append(
            {"method": name, "shared": known.parameters, "updateable": updateable, "rmus": updateable / full}
        )
    return rows


def stages_table(backbone: str) -> list[dict[str, Any]]:
    """The stages that FiLM can begin at, and what is then left of ψ."""
    from ..backbones import backbone_facts

    known = backbone_facts(backbone)
    return [
        {
            "stage": i,
            "name": stage.name,
            "sites": sum(known.stage_of(site) == i for site in known.site_names),
            "film_from": known.film_parameters_from(i),
        }
        for i, stage in enumerate(known.stages)
        if any(known.stage_of(site) >= i for site in known.site_names)
    ]


def _print_counts(printer: Printer, table: list[dict[str, Any]]) -> None:
    printer.table(
        ["method", "shared", "updateable", "relative update size"],
        [[r["method"], f"{r['shared']:,}", f"{r['updateable']:,}", f"{r['rmus']:.4f}"] for r in table],
        right=(1, 2, 3),
    )


def _show_file(printer: Printer, file: Path, plot: Path | None, photos: bool) -> None:
    from ..backbones import backbone_facts
    from ..files import check_writable, write_atomically
    from ..model import Update

    if plot is not None:
        check_writable(plot)
    update = Update.load(file)
    content = file.stat().st_size
    try:
        known = backbone_facts(update.backbone)
    except UsageError as error:
        raise UpdateFileError(f"{file}: {error.message}", "Was it made by another version?") from None
    update.check(known.features)
    body = update.learns()
    sites = _sites(file, update, known) if update.film else []
    if plot is not None and not sites:
        raise UsageError(f"{file} has no FiLM to plot.", "Only updates that learned FiLM have this figure.")
    moved = sum(t.numel() for t in update.body.values())
    what = "FiLM" if sites else body.adapter if body.train == "adapter" else "the backbone's"
    by_paper, full = update.updateable(known)
    facts: dict[str, Any] = {
        "file": str(file),
        "bytes": content,
        "backbone": update.backbone,
        "backbone_sha256": update.backbone_digest,
        "head": update.head,
        "classes": dict(zip([str(c) for c in update.classes], update.counts, strict=True)),
        "shared_numbers": known.parameters,
        "learned": body.train if body.train != "adapter" else body.adapter,
        "body_numbers": moved,
        "film_numbers": moved if sites else 0,
        "updateable_numbers": by_paper,
        "stored_numbers": update.numbers(),
        "relative_update_size": by_paper / full,
        "covariance_weights": None
        if update.covariance_weights is None
        else update.covariance_weights.exp().tolist(),
        "keeps_statistics": update.support is not None,
        "tells_unknown": update.unknown is not None,
        "temperature": update.temperature,
        "edits": update.edits,
        "pixels": vars(update.pixels),
        "settings": update.settings,
        "results": update.results,
        "seed": update.seed,
        "versions": update.versions,
    }
    printer.say(f"{file}: {file_size(content)}")
    printer.table(
        ["", ""],
        [
            ["backbone", f"{update.backbone} (weights {update.backbone_digest[:12]}…)"],
            ["head", update.head],
            ["shared numbers", f"{known.parameters:,}"],
            ["updateable numbers", f"{by_paper:,} by the paper's count, {moved:,} of them {what}"],
            ["stored numbers", f"{update.numbers():,}"],
            ["relative update size", f"{by_paper / full:.4f} of full fine-tuning's {full:,}"],
            ["covariance weights e", _weights(update.head, facts["covariance_weights"])],
            ["image size", f"{update.pixels.size} px"],
            ["statistics kept", "yes" if update.support is not None else "no"],
            ["tells unknown images", "yes" if update.unknown is not None else "no"],
            ["temperature", f"{update.temperature:g}"],
            ["edits", len(update.edits)],
            ["settings", ", ".join(f"{k}={v}" for k, v in update.settings.items() if v is not None)],
            ["results", ", ".join(f"{k}={v}" for k, v in update.results.items())],
            ["seed", update.seed],
            ["made with", ", ".join(f"{k} {v}" for k, v in update.versions.items())],
        ],
    )
    printer.say()
    printer.table(["class", "images"], list(facts["classes"].items()), right=(1,))
    if photos:
        facts["photos"] = _photos(printer, update)
    if plot is not None:
        from ..report.figures import film_by_layer

        write_atomically(
            plot,
            film_by_layer(update.film, sites, f"How far FiLM moved: {file.name} on {update.backbone}"),
        )
        printer.say(f"Wrote {plot}.")
        facts["plot"] = str(plot)
    printer.document(facts)


def _photos(printer: Printer, update: Any) -> list[dict[str, Any]]:
    """The photos that can be forgotten by name, and whether fine-tuning has seen them."""
    from ..training.edit import kept_support

    support = kept_support(update, "listed")
    rows = [
        {"photo": name, "class": update.classes[int(c)], "fine_tuned_on": not bool(unseen)}
        for name, c, unseen in zip(support.names, support.labels, support.unseen, strict=True)
    ]
    printer.say()
    printer.table(
        ["photo", "class", "fine-tuned on"],
        [[r["photo"], r["class"], "yes" if r["fine_tuned_on"] else "no"] for r in rows],
    )
    return rows


def _sites(file: Path, update: Any, known: Any) -> list[str]:
    """The sites the update has numbers for, in the order of the network."""
    try:
        sites: list[str] = known.sites_from(update.learns().film_from)
    except UsageError as error:
        raise UpdateFileError(f"{file}: {error.message}", "Train it again.") from None
    if {name.rpartition(".")[0] for name in update.film} != set(sites):
        raise UpdateFileError(
            f"{file}: the FiLM numbers do not belong to {update.backbone}.", "Train it again."
        )
    return sites


def _weights(head: str, values: list[float] | None) -> str:
    if values is None:
        return "none"
    names = {"lda": ("e2", "e3"), "qda": ("e1", "e2", "e3")}[head]
    return ", ".join(f"{name} = {value:.3f}" for name, value in zip(names, values, strict=True))
