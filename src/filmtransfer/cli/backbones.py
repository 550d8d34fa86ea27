"""fit backbones"""

from __future__ import annotations

from .printing import Json, Printer


def backbones(as_json: Json = False) -> None:
    """List the backbones and where their weights come from."""
    from ..backbones import list_all

    printer = Printer(as_json)
    rows = list_all()
    printer.table(
        ["name", "numbers", "features", "FiLM", "usable", "licence", "weights from", "note"],
        [
            [
                row.entry.name,
                f"{row.numbers.parameters:,}",
                row.numbers.features,
                f"{row.numbers.film:,}",
                "now" if row.usable else "not yet",
                row.entry.licence,
                row.source,
                row.entry.note,
            ]
            for row in rows
        ],
        right=(1, 2, 3),
    )
    printer.say(
        "Any other timm model of the families below works by its timm name, with --weights or online:"
    )
    printer.say("resnetv2/BiT, resnet, efficientnet, mobilenetv2/v3, convnext, regnet, vit/deit/dinov2.")
    printer.document(
        {
            "backbones": [
                {
                    "name": row.entry.name,
                    "timm": row.entry.timm_name,
                    "family": row.numbers.family,
                    "numbers": row.numbers.parameters,
                    "features": row.numbers.features,
                    "film_sites": row.numbers.sites,
                    "film_numbers": row.numbers.film,
                    "usable": row.usable,
                    "source": row.source,
                    "licence": row.entry.licence,
                    "note": row.entry.note,
                }
                for row in rows
            ]
        }
    )
