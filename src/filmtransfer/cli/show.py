"""fit show FILE | --backbone NAME"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UpdateFileError, UsageError
from ..formatting import count, file_size, percent
from .printing import Json, Printer

if TYPE_CHECKING:
    from ..backbones import BackboneFacts
    from ..model import Update
    from ..model.metadata import JsonTable


def show(
    file: Annotated[Path | None, typer.Argument(help="An update file.")] = None,
    backbone: Annotated[
        str | None, typer.Option(help="Show the parameter counts of a backbone instead.")
    ] = None,
    classes: Annotated[int, typer.Option(help="Number of classes C for --backbone.", min=2)] = 10,
    plot: Annotated[
        Path | None, typer.Option(help="Write box plots of |γ−1| and |β| by layer (PNG).")
    ] = None,
    photos: Annotated[
        bool, typer.Option("--photos", help="List the photos whose features it keeps.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show parameter counts, settings, results and versions too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what an update file contains, or the parameter counts of a backbone."""
    printer = Printer(as_json)
    if (file is None) == (backbone is None):
        raise UsageError("Give an update file or --backbone NAME.", "For example: fit show pets.safetensors")
    if file is not None:
        _show_file(printer, file, plot, photos, everything)
    elif plot is not None:
        raise UsageError("--plot shows the FiLM parameters of an update file.", "Give the file.")
    else:
        assert backbone is not None
        table = counts_table(backbone, classes)
        printer.say(f"{backbone}, C = {classes}: shared and updateable parameters")
        printer.table(
            ["method", "shared", "updateable", "relative update size"],
            [[r["method"], f"{r['shared']:,}", f"{r['updateable']:,}", f"{r['rmus']:.4f}"] for r in table],
            right=(1, 2, 3),
        )
        stages = stages_table(backbone)
        printer.say()
        printer.table(
            ["stage", "name", "FiLM sites", "FiLM parameters with --film-from stage"],
            [[r["stage"], r["name"], r["sites"], f"{r['film_from']:,}"] for r in stages],
            right=(0, 2, 3),
        )
        printer.document({"backbone": backbone, "classes": classes, "methods": table, "stages": stages})


def counts_table(backbone: str, classes: int) -> list[JsonTable]:
    """Return the paper's table 'Shared and updateable parameters' for any backbone and C."""
    from ..backbones import backbone_facts
    from ..heads import LDA, QDA, ProtoNets

    facts = backbone_facts(backbone)
    full = facts.parameters + classes * facts.features  # BiT: every weight, and a head of C·D
    counts = {"full fine-tuning (BiT)": (0, full)}
    for name, head in (("FiT-QDA", QDA), ("FiT-LDA", LDA), ("FiT-ProtoNets", ProtoNets)):
        updateable = facts.film_parameters + head.updateable(classes, facts.features)
        counts[name] = facts.parameters, updateable
    return [
        {"method": name, "shared": shared, "updateable": updateable, "rmus": updateable / full}
        for name, (shared, updateable) in counts.items()
    ]


def stages_table(backbone: str) -> list[JsonTable]:
    """Return the stages that FiLM can begin at, and the FiLM parameters from there on."""
    from ..backbones import backbone_facts

    facts = backbone_facts(backbone)
    return [
        {
            "stage": i,
            "name": stage.name,
            "sites": sum(facts.stage_of(site) == i for site in facts.site_names),
            "film_from": facts.film_parameters_from(i),
        }
        for i, stage in enumerate(facts.stages)
        if any(facts.stage_of(site) >= i for site in facts.site_names)
    ]


def _show_file(printer: Printer, file: Path, plot: Path | None, photos: bool, everything: bool) -> None:
    from ..backbones import backbone_facts
    from ..files import check_writable, write_atomically
    from ..model import Update
    from ..model.hub import find_update

    if plot is not None:
        from ..report.figures import load_pyplot

        check_writable(plot)
        load_pyplot()  # an error now, if it is not installed
    path = find_update(file)
    update = Update.load(path)
    try:
        backbone = backbone_facts(update.backbone)
    except UsageError as error:
        raise UpdateFileError(f"{file}: {error.message}", "Was it made by another version?") from None
    update.check(backbone.features)
    sites = _sites(file, update, backbone) if update.film else []
    if plot is not None and not sites:
        raise UsageError(f"{file} has no FiLM to plot.", "Only updates that trained FiLM have this figure.")
    document = _document(file, path.stat().st_size, update, backbone)
    _print_update(printer, update, document, everything)
    if photos:
        document["photos"] = _photos(printer, update)
    if plot is not None:
        from ..report.figures import film_by_layer

        title = f"Change of FiLM by layer: {file.name} on {update.backbone}"
        write_atomically(plot, film_by_layer(update.film, sites, title))
        printer.say(f"Wrote {plot}.")
        document["plot"] = str(plot)
    printer.document(document)


def _document(file: Path, size: int, update: Update, backbone: BackboneFacts) -> JsonTable:
    """Return the JSON document; parameter counts also have their former keys, which end in _numbers."""
    import numpy as np

    body = update.body()
    trained = sum(t.size for t in update.parameters.values())
    updateable, full = update.updateable(backbone)
    counts = {
        "shared": backbone.parameters,
        "body": trained,
        "film": trained if update.film else 0,
        "updateable": updateable,
        "stored": update.stored_parameters(),
    }
    weights = update.head_weights
    return {
        "file": str(file),
        "bytes": size,
        "compact_bytes": len(update.compact().to_bytes()),
        "backbone": update.backbone,
        "backbone_sha256": update.backbone_digest,
        "head": update.head,
        "classes": dict(zip([str(c) for c in update.classes], update.counts, strict=True)),
        "learned": body.train if body.train != "adapter" else body.adapter,
        **{f"{name}_parameters": count for name, count in counts.items()},
        **{f"{name}_numbers": count for name, count in counts.items()},
        "full_fine_tuning_parameters": full,
        "relative_update_size": updateable / full,
        "covariance_weights": None if weights is None else np.exp(weights).tolist(),
        "keeps_statistics": update.support is not None,
        "rejects_ood": update.ood is not None,
        "tells_unknown": update.ood is not None,
        "temperature": update.temperature,
        "edits": update.edits,
        "pixels": vars(update.pixels),
        "settings": update.settings,
        "results": update.results,
        "estimate": None if update.estimate is None else update.estimate.to_dict(),
        "seed": update.seed,
        "versions": update.versions,
    }


def _print_update(printer: Printer, update: Update, document: JsonTable, everything: bool) -> None:
    """Print the facts that most readers want; the rest on request."""
    from ..model import describe_estimate

    photos = count(sum(update.counts), "photo")
    updateable, full = document["updateable_parameters"], document["full_fine_tuning_parameters"]
    kept = update.support is not None
    share = f"; {file_size(document['compact_bytes'])} without the features of the photos" if kept else ""
    printer.say(f"{document['file']}: a classifier for {len(update.classes)} classes, from {photos}")
    printer.facts(
        {
            "accuracy": describe_estimate(update.estimate),
            "size": file_size(document["bytes"]) + share,
            "backbone": f"{update.backbone}, images of {update.pixels.size} pixels",
            "head": update.head,
            "parameters": f"{updateable:,}, {percent(updateable / full, 2)} of the {full:,} of full fine-tuning",
            "can be edited": "yes" if kept else "no: it keeps no statistics",
            "rejects other images": "yes (fit predict --reject)"
            if update.ood
            else f"no: {update.no_ood()[0]}",
            **(
                {"edits": f"{len(update.edits)}, the last: {update.edits[-1]['what']}"}
                if update.edits
                else {}
            ),
        }
    )
    if everything:
        _print_details(printer, update, document)
    printer.say()
    printer.table(["class", "photos"], list(document["classes"].items()), right=(1,))
    if not everything:
        printer.say()
        printer.say("Settings, results and versions: fit show --all. Every photo: fit show --photos.")


RESULT_NAMES = {  # of what a file stores under shorter names
    "estimate accuracy": "estimated accuracy",
    "estimate low": "lower end of the 95% interval",
    "estimate high": "upper end of the 95% interval",
    "estimate images": "photos it was measured on",
    "estimate unseen": "unseen by fine-tuning",
    "estimate log_loss": "log loss without, with temperature",
    "share": "interpolation factor α",
    "stopped": "fine-tuning ended by",
}


def _print_details(printer: Printer, update: Update, document: JsonTable) -> None:
    """Print counts of parameters, settings, results and versions."""
    from ..heads import HEADS

    body = update.body()
    kind = "FiLM" if update.film else body.adapter if body.train == "adapter" else "the backbone's"
    trained, full = document["body_parameters"], document["full_fine_tuning_parameters"]
    printer.say()
    printer.facts(
        {
            "weights": f"SHA-256 {update.backbone_digest}",
            "shared parameters": f"{document['shared_parameters']:,}",
            "updateable parameters": f"{document['updateable_parameters']:,} by the paper's count, "
            f"{trained:,} of them {kind}",
            "stored parameters": f"{document['stored_parameters']:,}",
            "relative update size": f"{document['relative_update_size']:.4f} of full fine-tuning's {full:,}",
            "head weights": HEADS[update.head].describe_weights(update.head_weights),
            "temperature": f"{update.temperature:g}",
            "seed": str(update.seed),
            "made with": ", ".join(f"{name} {version}" for name, version in update.versions.items()),
        }
    )
    for title, table in (("Settings", update.settings), ("Results", update.results)):
        printer.say()
        printer.say(f"{title}:")
        printer.facts({_describe_name(name): value for name, value in _flat(table)})


def _describe_name(name: str) -> str:
    """Return what a setting or a result is called in the terms of the documentation."""
    return RESULT_NAMES.get(name, name.replace("scores ", "held-out score of α = "))


def _flat(table: JsonTable, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield names and values of a table and of the tables in it, without those that are not set."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name} ")
        elif isinstance(value, list):
            yield f"{prefix}{name}", ", ".join(map(str, value))
        elif value is not None:
            yield f"{prefix}{name}", {"True": "yes", "False": "no"}.get(str(value), str(value))


def _photos(printer: Printer, update: Update) -> list[JsonTable]:
    """Print and return the photos that can be forgotten by name, and whether fine-tuning has seen them."""
    from ..training.edit import kept_support

    support = kept_support(update, "listed")
    rows = [
        {"photo": name, "class": update.classes[int(c)], "fine_tuned_on": not bool(unseen)}
        for name, c, unseen in zip(support.names, support.labels, support.held_out, strict=True)
    ]
    printer.say()
    printer.table(
        ["photo", "class", "fine-tuned on"],
        [[r["photo"], r["class"], "yes" if r["fine_tuned_on"] else "no"] for r in rows],
    )
    return rows


def _sites(file: Path, update: Update, backbone: BackboneFacts) -> list[str]:
    """Return the sites that the update has FiLM parameters for, in the order of the network."""
    try:
        sites = backbone.sites_from(update.body().film_from)
    except UsageError as error:
        raise UpdateFileError(f"{file}: {error.message}", "Train it again.") from None
    if {name.rpartition(".")[0] for name in update.film} != set(sites):
        raise UpdateFileError(
            f"{file}: the FiLM parameters do not belong to {update.backbone}.", "Train it again."
        )
    return sites
