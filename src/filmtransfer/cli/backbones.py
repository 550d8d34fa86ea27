"""fit backbones"""

from __future__ import annotations

from .printing import Json, Printer


def backbones(as_json: Json = False) -> None:
    """List the backbones and where their weights come from."""
    from ..backbones import list_backbones

    printer = Printer(as_json)
    rows = list_backbones()
    printer.table(
        ["name", "parameters", "features", "FiLM", "usable", "licence", "weights from", "note"],
        [
            [
                row.record.name,
                f"{row.facts.parameters:,}",
                row.facts.features,
                f"{row.facts.film_parameters:,}",
                "yes" if row.usable else "not yet",
                row.record.licence,
                row.source,
                row.record.note,
            ]
            for row in rows
        ],
        right=(1, 2, 3),
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
