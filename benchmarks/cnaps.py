"""Write the table of Simple CNAPs on small real data: held-out classes, with and without generated FiLM.

    fit bench cnaps train --data-root DATA --dataset quickdraw --dataset cifar10 --dataset eurosat --dataset dtd10 \
        --image-size 64 --classes 30 --steps 60 --learning-rate 1e-4 --support-size 25 --max-query 25 --test-tasks 10 \
        --out cnaps.safetensors --json > cnaps.json
    python benchmarks/cnaps.py cnaps.json

writes benchmarks/results/cnaps.json and cnaps.md. (At a learning rate of 5e-4 for 200 tasks the generated parameters
diverged: docs/log.md.)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def page(document: dict[str, Any]) -> str:
    """Return the table of the document that ``fit bench cnaps train --json`` printed."""
    settings = document["settings"]
    lines = [
        f"Accuracy in percent on tasks of held-out classes, efficientnet_lite0 at {settings['image_size']} pixels, support sets "
        f"of about {settings['support_size']} images; ± is 1.96 standard errors of the paired difference over tasks. "
        f"{document['steps']} tasks of meta-training, seed {settings['seed']}; {document['numbers']:,} parameters.",
        "",
        "| dataset | held-out classes | tasks | frozen, Mahalanobis | generated FiLM | gain |",
        "|---|---|---|---|---|---|",
    ]
    for row in document["held_out"]:
        lines.append(
            f"| {row['set']} | {row['classes']} | {row['tasks']} | {100 * row['frozen']:.1f} | "
            f"{100 * row['generated']:.1f} | {100 * row['gain']:+.1f} ± {100 * row['interval']:.1f} |".replace(
                "-", "−"
            )
        )
    mean = sum(row["gain"] for row in document["held_out"]) / len(document["held_out"])
    lines += ["", f"Mean gain: {100 * mean:+.1f}.".replace("-", "−")]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    result = json.loads(Path(sys.argv[1]).read_text())
    result.pop("file", None)
    (RESULTS / "cnaps.json").write_text(json.dumps(result, indent=1) + "\n")
    (RESULTS / "cnaps.md").write_text(page(result))
