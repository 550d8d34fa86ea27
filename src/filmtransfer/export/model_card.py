"""The model card of an exported folder, written from what the update file contains.

The header is the metadata that the Hugging Face hub reads. An accuracy is given only if the update
stores an estimate, with its interval and the photos it was measured on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Literal

from .. import __version__
from ..backbones import backbone_facts, record_for
from ..formatting import printable
from ..model import Update, describe_estimate
from ..model.ood import FALSE_ALARM
from .rejection import Rejection

Folder = Literal["hub", "web"]
LICENCES = {"Apache-2.0": "apache-2.0", "MIT": "mit"}
MAX_CLASSES = 60  # in the table of classes
SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#&~!$:@"})


def model_card(
    update: Update,
    folder: Folder,
    rejection: Rejection,
    title: str = "",
    notes: Iterable[str] = (),
    location: str = "",
) -> str:
    """Return README.md for a folder; ``notes`` say how it was exported, ``location`` is where it will be loaded from."""
    usage = _hub_usage(location, rejection) if folder == "hub" else WEB_USAGE
    sections = [
        header(update),
        f"# {_escape(title or default_title(update.classes))}\n\n"
        f"An image classifier for {len(update.classes)} classes, trained on {sum(update.counts):,} photos with "
        f"filmtransfer on a frozen `{update.backbone}` (FiT: *FiLM Transfer*, Shysheya et al., ICLR 2023).",
        f"## How to use it\n\n{usage}",
        f"## Classes\n\n{_class_table(update)}",
        "## Accuracy\n\n" + "\n".join(f"- {line}" for line in [describe_estimate(update.estimate), *notes]),
        f"## Parameters and settings\n\n{_settings_table(update)}",
        f"## Limits\n\n{_limits(folder, rejection)}",
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
    estimate = update.estimate
    if estimate is not None:
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
            f"      name: {json.dumps(estimate.text)}",
            f"      value: {estimate.accuracy:.4f}",
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
        "backbone": f"`{update.backbone}` ({timm_name}), weights {_escape(update.backbone_digest[:16])}…",
        "frozen parameters": f"{backbone_facts(update.backbone).parameters:,}",
        "trained parameters of the backbone": f"{trained:,} {kind}",
        "head": f"{update.head}, {update.stored_parameters() - trained:,} parameters",
        "images": f"RGB, {pixels.size} × {pixels.size} pixels, {fit}, {pixels.interpolation}",
        "class prior": _prior(update),
        "seed": str(update.seed),
        "made with": _escape(", ".join(f"{k} {v}" for k, v in update.versions.items())) or "unknown",
    }
    return "\n".join(["| | |", "|---|---|", *[f"| {name} | {value} |" for name, value in rows.items()]])


def _hub_usage(location: str, rejection: Rejection) -> str:
    python = command = ""
    if rejection.detector is not None:
        python, command = ", reject=True", " --reject"
        if rejection.false_alarm != FALSE_ALARM:
            python += f", false_alarm={rejection.false_alarm:g}"
            command += f" --false-alarm {rejection.false_alarm:g}"
    return f"""```python
from filmtransfer import FewShotClassifier

clf = FewShotClassifier.from_hub({json.dumps(location or "path/of/this/folder")})
print(clf.predict(["photo.jpg"]{python}), clf.predict_proba(["photo.jpg"]))
```

or `fit predict update.safetensors photo.jpg{command}`. The backbone is not in this folder: it is loaded from the same source as
in training, and its weights must be identical."""


WEB_USAGE = """Put this folder on any web server, or try it here:

```bash
python3 -m http.server 8080
```

and open <http://localhost:8000>. The model runs in the browser with onnxruntime-web; nothing is loaded from
elsewhere and no photo is uploaded."""


def _limits(folder: Folder, rejection: Rejection) -> str:
    """Say what becomes of photos of none of the classes."""
    if rejection.detector is None:
        others = "It cannot reject photos: one of anything else is assigned to one of them."
    else:
        rejected = (
            "With `reject`, a photo that resembles none of them is rejected (its class is `None`); without it, every photo is "
            "assigned to one of them."
            if folder == "hub"
            else "A photo that resembles none of them is shown as “None of these”."
        )
        others = (
            f"{rejected} The threshold is set such that about {rejection.rate} of the photos of these classes are rejected as "
            "well; photos of similar things may still be assigned to a class."
        )
    return (
        f"It knows these classes and no others. {others} It was tested only on photos that its author had; photos from "
        "elsewhere may be harder."
    )


def _prior(update: Update) -> str:
    prior = update.settings.get("prior", "uniform")
    names = {"uniform": "all classes equally likely", "empirical": "as frequent as in the photos"}
    if isinstance(prior, str):
        return names.get(prior, prior)
    return ", ".join(f"{_escape(c)} {p:.3g}" for c, p in zip(update.classes, prior, strict=False))


def _escape(name: object) -> str:
    """Return text of a file that can neither break the table nor be read as markup."""
    return printable(" ".join(str(name).split())).translate(SPECIAL)
