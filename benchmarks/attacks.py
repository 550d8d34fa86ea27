"""What an attack costs at most: memory, seconds and bytes at the limit of the budgets, on a real service.

    python benchmarks/attacks.py [--before CHECKOUT]

Every attack is made on a ``fit serve`` of its own on loopback, by a user with a token and the default quota, or without
a token. Memory is the peak of all processes of the service (PSS) above that before the attack. While an attack runs, another user
predicts a small photo five times a second, and ``/healthz`` is asked: the slowest responses say whether others were served.
``--before`` repeats all attacks on the code of another checkout. Writes benchmarks/results/attacks.json and attacks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from attack_inputs import ATTACKS, Attack
from attack_service import AttackedService

FILE = Path(__file__).parent / "results" / "attacks.json"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--before", type=Path, help="a checkout of the version before")
    options.add_argument("--only", help="attacks whose name contains this text; writes nothing")
    args = options.parse_args()
    rows = []
    for attack in ATTACKS:
        if args.only and args.only not in attack.name:
            continue
        row: dict[str, Any] = {"name": attack.name, "now": measure(attack, None)}
        if args.before:
            row["before"] = measure(attack, args.before)
        print(json.dumps(row), file=sys.stderr, flush=True)
        rows.append(row)
    if args.only:
        return
    command = "python benchmarks/attacks.py" + (" --before CHECKOUT" if args.before else "")
    results = {"command": command, "cores": len(os.sched_getaffinity(0)), "attacks": rows}
    FILE.write_text(json.dumps(results, indent=1) + "\n")
    FILE.with_suffix(".md").write_text(page(results))


def measure(attack: Attack, checkout: Path | None) -> dict[str, Any]:
    """Make one attack on a new service, and return what it cost."""
    with AttackedService(checkout) as service:
        service.prepare()
        before = service.memory()
        with service.observed() as observed:
            start = time.perf_counter()
            outcome = attack.run(service)
            seconds = time.perf_counter() - start
        return {
            "MB": round(max(0.0, observed.peak - before), 1),
            "seconds": round(seconds, 2),
            "slowest health check, s": round(observed.slowest, 2),
            "slowest prediction, s": round(observed.prediction, 2),
            "refused predictions": observed.refused,
            "statuses": outcome.statuses(),
            "MB of responses": round(outcome.received / 1e6, 3),
            "alive": service.alive(),
        }


def page(results: dict[str, Any]) -> str:
    """Return the results as a page in Markdown."""
    has_former = any("before" in row for row in results["attacks"])
    header = [
        *(
            "attack",
            "memory, MB",
            "seconds",
            "slowest `/healthz`, s",
            "slowest prediction of another user, s",
        ),
        *("responses to the attacker", "MB of them"),
    ]
    lines = [
        f"{results['cores']} cores; made by `{results['command']}`."
        + (" In brackets: the version before." if has_former else ""),
        "",
        f"| {' | '.join(header)} |",
        "|---" * len(header) + "|",
    ]
    for row in results["attacks"]:
        now, then = row["now"], row.get("before")

        def cell(key: str, now: dict[str, Any] = now, then: dict[str, Any] | None = then) -> str:
            return f"{now[key]:g}" + (f" ({then[key]:g})" if then else "")

        answers = ", ".join(f"{count} × {status}" for status, count in now["statuses"].items())
        if not now["alive"]:
            answers += "; the service ended"
        cells = [row["name"], cell("MB"), cell("seconds"), cell("slowest health check, s")]
        refused = f"; {now['refused predictions']} refused" if now["refused predictions"] else ""
        cells += [cell("slowest prediction, s") + refused, answers]
        lines.append(f"| {' | '.join([*cells, cell('MB of responses')])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
