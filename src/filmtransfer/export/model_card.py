"""The model card of an exported folder, written from what the update file contains.

The header is the metadata that the Hugging Face hub reads. An accuracy is given only if the update's results
contain one, and is labelled an estimate if it is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Literal

from .. import __version__
from ..backbones import backbone_facts, record_for
from ..formatting import percent
from ..model import Update

Folder = Literal["hub", "web"]
LICENCES = {"Apache-2.0": "apache-2.0", "MIT": "mit"}
MAX_CLASSES = 60  # in the table of classes
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#"})


def model_card(
    update: Update, folder: Folder, title: str = "", notes: Iterable[str] = (), location: str = ""
) -> str:
    """Return README.md for a folder; ``notes`` say how it was exported, ``location`` is where it will be loaded from."""
    usage = _hub_usage(location) if folder == "hub" else WEB_USAGE
    sections = [
        header(update),
        f"# {title or default_title(update.classes)}\n\n"
        f"An image classifier for {len(update.classes)} classes, trained on {sum(update.counts):,} photos with "
        f"filmtransfer on a frozen `{update.backbone}` (FiT: *FiLM Transfer*, Shysheya et al., ICLR 2023).",
        f"## How to use it\n\n{usage}",
        f"## Classes\n\n{_class_table(update)}",
        "## Accuracy\n\n" + "\n".join(f"- {line}" for line in [_accuracy(update), *notes]),
        f"## Parameters and settings\n\n{_settings_table(update)}",
        "## Limits\n\n"
        "It knows these classes and no others: a photo of anything else is assigned to one of them. It was tested only "
        "on photos that its author had; photos from elsewhere may be harder.",
        f"## Licence\n\nThe backbone's weights are under {record_for(update.backbone).licence}. The trained parameters "
        "belong to whoever trained them; say here under which terms you share them.",
        f"*Written by filmtransfer {__version__}.*",
    ]
    return "\n\n".join(sections) + "\n"


def header(update: Update) -> str:
    """Return the hub's metadata in YAML; strings are quoted as JSON, which YAML can read."""
    record = record_for(update.backbone)
    lines = [
        "---",
        "library_name: filmtransfer",
        "pipeline_tag: image-classification",
        f"license: {LICENCES.get(record.licence, 'other')}",
        f"base_model: {json.dumps('timm/' + record.timm_name)}",
        "tags:",
        *[f"- {tag}" for tag in ("image-classification", "few-shot", "film", f"head-{update.head}")],
    ]
    accuracy = estimated_accuracy(update)
    if accuracy is not None:
        lines += [
            "model-index:",
            f"- name: {json.dumps(default_title(update.classes))}",
            "  results:",
            "  - task:",
            "      type: image-classification",
            "    dataset:",
            '      name: "its training photos"',
            "      type: imagefolder",
            "    metrics:",
            "    - type: accuracy",
            '      name: "accuracy, cross-validation estimate on the training photos"',
            f"      value: {accuracy:.4f}",
        ]
    return "\n".join([*lines, "---"])


def default_title(classes: Sequence[object]) -> str:
    """Return a title made from the classes: "cup, keys or plant?"."""
    names = [str(c) for c in classes]
    if len(names) == 1:
        return names[0]
    if len(names) <= 5 and sum(map(len, names)) <= 60:
        return f"{', '.join(names[:-1])} or {names[-1]}?"
    return f"Which of {len(names)} is it?"


def estimated_accuracy(update: Update) -> float | None:
    """Return the accuracy estimate in the update's results, if there is one."""
    estimate = update.results.get("estimate")
    return None if estimate is None else float(estimate["accuracy"])


def _accuracy(update: Update) -> str:
    accuracy = estimated_accuracy(update)
    if accuracy is None:
        return "It has not been measured. `fit evaluate update.safetensors FOLDER` measures it on labelled photos."
    return f"{percent(accuracy)} accuracy, estimated by cross-validation on the training photos."


def _class_table(update: Update) -> str:
    rows = zip(update.classes[:MAX_CLASSES], update.counts[:MAX_CLASSES], strict=True)
    table = "\n".join(["| class | photos |", "|---|---:|", *[f"| {_escape(c)} | {n:,} |" for c, n in rows]])
    hidden = len(update.classes) - MAX_CLASSES
    return f"{table}\n\n… and {hidden} more." if hidden > 0 else table


def _settings_table(update: Update) -> str:
    pixels, body = update.pixels, update.body()
    trained = sum(t.size for t in update.parameters.values())
    kind = "FiLM scales and shifts" if update.film else body.adapter if body.train == "adapter" else "weights"
    fit = "the complete image scaled to a square" if pixels.fit == "squash" else "its centre"
    timm_name = record_for(update.backbone).timm_name
    rows = {
        "backbone": f"`{update.backbone}` ({timm_name}), weights `{update.backbone_digest[:16]}…`",
        "frozen parameters": f"{backbone_facts(update.backbone).parameters:,}",
        "trained parameters of the backbone": f"{trained:,} {kind}",
        "head": f"{update.head}, {update.stored_parameters() - trained:,} parameters",
        "images": f"RGB, {pixels.size} × {pixels.size} pixels, {fit}, {pixels.interpolation}",
        "class prior": _prior(update),
        "seed": str(update.seed),
        "made with": ", ".join(f"{k} {v}" for k, v in update.versions.items()) or "unknown",
    }
    return "\n".join(["| | |", "|---|---|", *[f"| {name} | {value} |" for name, value in rows.items()]])


def _hub_usage(location: str) -> str:
    return f"""```python
from filmtransfer import FewShotClassifier

clf = FewShotClassifier.from_hub({json.dumps(location or "path/of/this/folder")})
print(clf.predict(["photo.jpg"]), clf.predict_proba(["photo.jpg"]))
```

or `fit predict update.safetensors photo.jpg`. The backbone is not in this folder: it is loaded from the same source as
in training, and its weights must be identical."""


WEB_USAGE = """Put this folder on any web server, or try it here:

```bash
python3 -m http.server
```

and open <http://localhost:8000>. The model runs in the browser with onnxruntime-web; nothing is loaded from
elsewhere and no photo is uploaded."""


def _prior(update: Update) -> str:
    prior = update.settings.get("prior", "uniform")
    names = {"uniform": "all classes equally likely", "empirical": "as frequent as in the photos"}
    if isinstance(prior, str):
        return names.get(prior, prior)
    return ", ".join(f"{_escape(c)} {p:.3g}" for c, p in zip(update.classes, prior, strict=False))


def _escape(name: object) -> str:
    """Return a class name that can neither break the table nor be read as markup."""
    return " ".join(str(name).split()).translate(SPECIAL)
