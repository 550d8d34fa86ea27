"""The model card: what a folder holds, in the words of the update it was made from.

The header is the one that the Hugging Face hub reads. Only what the update knows is said: an accuracy is
in the card if it is among the update's results, and said to be an estimate if it is one.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from .. import __version__
from ..backbones import backbone_facts, record_for
from ..errors import UsageError
from ..model import Update

Folder = Literal["hub", "web"]
LICENCES = {"Apache-2.0": "apache-2.0", "MIT": "mit"}
SHOWN = 60  # classes in the table


def card(
    update: Update, folder: Folder, title: str = "", notes: list[str] | None = None, place: str = ""
) -> str:
    """README.md for a folder; ``notes`` are lines about how it was made (parity, int8), ``place`` is where it will be."""
    record, known = record_for(update.backbone), _numbers(update)
    name = title or question(update.classes)
    lines = [
        header(update),
        f"# {name}",
        "",
        f"An image classifier for {len(update.classes)} classes, learned from {sum(update.counts):,} photos with "
        f"filmtransfer on a frozen `{update.backbone}` (FiT: *FiLM Transfer*, Shysheya et al., ICLR 2023).",
        "",
        "## How to use it",
        "",
        *(_use_hub(place) if folder == "hub" else _use_web()),
        "",
        "## Classes",
        "",
        "| class | photos |",
        "|---|---:|",
        *[
            f"| {_cell(c)} | {n:,} |"
            for c, n in zip(update.classes[:SHOWN], update.counts[:SHOWN], strict=True)
        ],
    ]
    if len(update.classes) > SHOWN:
        lines += ["", f"… and {len(update.classes) - SHOWN} more."]
    lines += ["", "## How good it is", "", *_accuracy(update), *[f"- {note}" for note in notes or []]]
    learned = sum(t.numel() for t in update.body.values())
    body = update.learns()
    what = "FiLM scales and shifts" if update.film else body.adapter if body.train == "adapter" else "weights"
    lines += [
        "",
        "## What is inside",
        "",
        "| | |",
        "|---|---|",
        f"| backbone | `{update.backbone}` ({record.timm_name}), weights `{update.backbone_digest[:16]}…` |",
        f"| frozen numbers | {known:,} |" if known else "| frozen numbers | unknown |",
        f"| learned of the backbone | {learned:,} {what} |",
        f"| head | {update.head}, {update.numbers() - learned:,} numbers |",
        f"| images | RGB, {update.pixels.size} × {update.pixels.size} pixels, "
        + ("the whole image squashed" if update.pixels.fit == "squash" else "its middle")
        + f", {update.pixels.interpolation} |",
        f"| priors | {_prior(update)} |",
        f"| seed | {update.seed} |",
        f"| made with | {', '.join(f'{k} {v}' for k, v in update.versions.items()) or 'unknown'} |",
        "",
        "## Limits",
        "",
        "It knows these classes and no others: a photo of anything else is given one of them. It was tried on no photos but those that its "
        "maker had; photos from elsewhere may differ.",
        "",
        "## Licence",
        "",
        f"The backbone's weights are under {record.licence}. What was learned belongs to whoever made it; say here "
        "under which terms you give it away.",
        "",
        f"*Written by filmtransfer {__version__}.*",
        "",
    ]
    return "\n".join(lines)


def header(update: Update) -> str:
    """The hub's metadata, in YAML; strings are quoted as JSON, which YAML reads."""
    record = record_for(update.backbone)
    found = [
        "---",
        "library_name: filmtransfer",
        "pipeline_tag: image-classification",
        f"license: {LICENCES.get(record.licence, 'other')}",
        f"base_model: {json.dumps('timm/' + record.timm_name)}",
        "tags:",
        *[f"- {tag}" for tag in ("image-classification", "few-shot", "film", f"head-{update.head}")],
    ]
    if estimate(update) is not None:
        value, what = estimate(update) or (0.0, "")
        found += [
            "model-index:",
            f"- name: {json.dumps(question(update.classes))}",
            "  results:",
            "  - task:",
            "      type: image-classification",
            "    dataset:",
            f"      name: {json.dumps('the photos it was made from')}",
            "      type: imagefolder",
            "    metrics:",
            "    - type: accuracy",
            f"      name: {json.dumps(what)}",
            f"      value: {value:.4f}",
        ]
    return "\n".join([*found, "---", ""])


def question(classes: list[Any]) -> str:
    """A title from the classes: "cup, keys or plant?"."""
    names = [str(c) for c in classes]
    if len(names) == 1:
        return names[0]
    if len(names) <= 5 and sum(map(len, names)) <= 60:
        return f"{', '.join(names[:-1])} or {names[-1]}?"
    return f"Which of {len(names)} is it?"


def estimate(update: Update) -> tuple[float, str] | None:
    """The accuracy that the update's results speak of, and what kind of number it is."""
    for key in ("accuracy", "estimate", "accuracy_estimate"):
        value = update.results.get(key)
        value = value.get("accuracy") if isinstance(value, dict) else value
        if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value), "accuracy, estimated on the training photos, each left out in turn"
    return None


def _accuracy(update: Update) -> list[str]:
    found = estimate(update)
    if found is None:
        return [
            "- It has not been measured. `fit evaluate update.safetensors FOLDER` does, on photos it has not seen."
        ]
    return [f"- {found[0]:.1%} {found[1]}."]


def _use_hub(place: str) -> list[str]:
    return [
        "```python",
        "from filmtransfer import FewShotClassifier",
        "",
        f"clf = FewShotClassifier.from_hub({json.dumps(place or 'path/of/this/folder')})",
        'print(clf.predict(["photo.jpg"]), clf.predict_proba(["photo.jpg"]))',
        "```",
        "",
        "or `fit predict update.safetensors photo.jpg`. The backbone is not in this folder: it comes from where it came "
        "from at training, and its weights have to be the same.",
    ]


def _use_web() -> list[str]:
    return [
        "Put this folder on any web server, or try it here:",
        "",
        "```bash",
        "python3 -m http.server",
        "```",
        "",
        "and open <http://localhost:8000>. The model runs in the browser with onnxruntime-web; nothing is fetched from "
        "elsewhere and no photo is sent.",
    ]


def _numbers(update: Update) -> int:
    try:
        return backbone_facts(update.backbone).parameters
    except UsageError:  # a backbone that this version does not know
        return 0


def _prior(update: Update) -> str:
    prior = update.settings.get("prior", "uniform")
    if isinstance(prior, str):
        return {"uniform": "all classes equally likely", "empirical": "as frequent as in the photos"}.get(
            prior, prior
        )
    return ", ".join(f"{_cell(c)} {p:.3g}" for c, p in zip(update.classes, prior, strict=False))


def _cell(value: Any) -> str:
    """A class name that cannot break the table, nor be taken for markup."""
    text = " ".join(str(value).split())
    for mark in "\\`*_[]<>|#":
        text = text.replace(mark, f"\\{mark}")
    return text
