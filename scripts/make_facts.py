"""Write src/filmtransfer/backbones/facts.json, the facts about the backbones of the catalogue, from timm.

make docs
"""

from __future__ import annotations

import json

from filmtransfer.backbones import CATALOGUE
from filmtransfer.backbones.architecture import derive_facts
from filmtransfer.backbones.facts import TABLE


def facts_table() -> str:
    """Return the text of facts.json, with one line per fact."""
    facts = {record.timm_name: derive_facts(record).to_json() for record in CATALOGUE.values()}
    entries = [
        f'"{name}": {{\n'
        + ",\n".join(f' "{key}": {json.dumps(value)}' for key, value in entry.items())
        + "\n}"
        for name, entry in facts.items()
    ]
    return "{\n" + ",\n".join(entries) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(facts_table())
    print(f"wrote {TABLE.name}")
