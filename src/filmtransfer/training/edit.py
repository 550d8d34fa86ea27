"""Change a trained classifier without training: classes and photos in and out, from the kept support features.

ψ stays as it is; the head, the temperature, the estimate and what tells strangers are rebuilt from the support features
that remain, so the result equals a head built from them in the first place. It takes milliseconds. Nothing of a
photo that is taken out remains in the file: not its features, its name, its digest, nor its share in any sum. (ψ was
fine-tuned with it, if it was: that can be undone by training again only.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError, UsageError
from ..heads import GaussianHead, Prior, log_prior
from ..model import Support, Update
from .assess.assessment import Judgement, judge


@dataclass(frozen=True)
class Edited:
    """The update after an edit, and the head that goes with it."""

    update: Update
    head: GaussianHead
    judgement: Judgement | None


def add_photos(
    update: Update,
    head: GaussianHead,
    name: Any,
    features: Tensor,
    names: Sequence[str],
    digests: Sequence[str],
) -> Edited:
    """Photos of a class, which is made if it is new; ones that are there already are left out."""
    support = kept_support(update)
    classes = list(update.classes)
    known = set(support.digests)
    fresh = [i for i, digest in enumerate(digests) if digest not in known and digest not in digests[:i]]
    if not fresh:
        raise InputError("All of these photos are in it already.", "Give other photos, or forget them first.")
    if name not in classes:
        classes.append(name)
    more = Support(
        features[fresh].cpu().float(),
        torch.full((len(fresh),), classes.index(name)),
        torch.ones(len(fresh), dtype=torch.bool),  # ψ has never seen them
        [names[i] for i in fresh],
        [digests[i] for i in fresh],
    )
    line = {"what": "add", "class": name, "photos": len(fresh)}
    return _rebuild(update, head, classes, support.join(more), line)


def forget_photos(update: Update, head: GaussianHead, which: Sequence[int]) -> Edited:
    """Take photos out, by their place among the support images."""
    support = kept_support(update)
    kept = torch.ones(len(support), dtype=torch.bool)
    kept[list(which)] = False
    left = support.select(torch.nonzero(kept).flatten())
    counts = left.counts(len(update.classes))
    if 0 in counts:
        raise InputError(
            f"{update.classes[counts.index(0)]} would have no photo left.", "Remove the class instead."
        )
    classes = sorted({str(update.classes[int(support.labels[i])]) for i in which})
    line = {"what": "forget", "classes": classes, "photos": int((~kept).sum())}
    return _rebuild(update, head, update.classes, left, line)


def remove_class(update: Update, head: GaussianHead, name: Any) -> Edited:
    """Take a class and its photos out."""
    support, place = kept_support(update), place_of(update, name)
    if len(update.classes) == 2:
        raise InputError(
            "A classifier needs at least two classes; this would leave one.",
            "Add another class first, or delete the file.",
        )
    left = support.select(torch.nonzero(support.labels != place).flatten())
    places = [c - (c > place) for c in range(len(update.classes))]
    classes = [c for c in update.classes if c != name]
    line = {"what": "remove", "photos": len(support) - len(left)}  # its name goes with it
    silent = replace(update, edits=_without_name(update.edits, name))
    return _rebuild(silent, head, classes, left.relabel(places), line, priors=_without(update, place))


def merge_classes(update: Update, head: GaussianHead, names: Sequence[Any], into: Any) -> Edited:
    """Make one class of several."""
    support = kept_support(update)
    merged = [place_of(update, name) for name in names]
    if len(set(merged)) < 2:
        raise UsageError("Merging needs at least two different classes.", "Name them all.")
    others = [c for i, c in enumerate(update.classes) if i not in merged]
    if into in others:
        raise InputError(
            f"There is another class {into}.", "Name it among those to merge, or choose another name."
        )
    if not others:
        raise InputError("Merging all classes would leave one.", "A classifier needs at least two.")
    first = min(merged)
    classes = [
        into if i == first else c for i, c in enumerate(update.classes) if i == first or i not in merged
    ]
    places = [classes.index(into) if i in merged else classes.index(c) for i, c in enumerate(update.classes)]
    line = {"what": "merge", "classes": [str(n) for n in names], "into": into}
    return _rebuild(
        update, head, classes, support.relabel(places), line, priors=_summed(update, places, len(classes))
    )


def rename_class(update: Update, name: Any, to: Any) -> Update:
    """Another name for a class; this needs no statistics."""
    place = place_of(update, name)
    if to in update.classes:
        raise InputError(f"There is a class {to} already.", "Merge them, or choose another name.")
    classes = [to if i == place else c for i, c in enumerate(update.classes)]
    support = update.support
    if support is not None:  # photos are called by their class's folder: that name goes too
        names = [
            f"{to}/{n.rpartition('/')[2]}" if int(c) == place and n.startswith(f"{name}/") else n
            for n, c in zip(support.names, support.labels, strict=True)
        ]
        support = replace(support, names=names)
    line = _dated({"what": "rename", "class": name, "to": to})
    return replace(update, classes=classes, support=support, edits=[*update.edits, line])


def kept_support(update: Update, purpose: str = "changed") -> Support:
    """The support images, or what to do if the file does not have them."""
    if update.support is None:
        raise InputError(
            f"This file keeps no statistics, so its classes and photos cannot be {purpose}.",
            "Train it again with --keep-statistics (keep_statistics=True).",
        )
    if purpose == "changed" and update.head == "linear" and update.learns().train != "none":
        raise InputError(
            "A linear head that was trained together with the backbone cannot be rebuilt without training.",
            "Use the lda, qda or protonets head.",
        )
    return update.support


def place_of(update: Update, name: Any) -> int:
    """Where a class stands; a number may be given as text, as on a command line."""
    for place, known in enumerate(update.classes):
        if name == known:
            return place
    known = ", ".join(map(str, update.classes[:12]))
    raise InputError(f"There is no class {name}.", f"The classes are: {known}.")


def find_photos(update: Update, name: str, digest: str | None) -> list[int]:
    """The support images with this content; where there is no content to compare, with this name."""
    support = kept_support(update)
    if digest is not None:
        found = [i for i, known in enumerate(support.digests) if known == digest]
    else:
        found = [i for i, known in enumerate(support.names) if name == known or known.endswith(f"/{name}")]
    if not found:
        raise InputError(f"No photo in this file is {name}.", "See them all with: fit show FILE --photos.")
    if digest is None and len(found) > 1:
        same = ", ".join(support.names[i] for i in found[:3])
        raise InputError(
            f"Several photos are called {name}: {same}.", "Give the class as well, as in cup/1.jpg."
        )
    return found


@torch.no_grad()
def _rebuild(
    update: Update,
    head: GaussianHead,
    classes: list[Any],
    support: Support,
    line: dict[str, Any],
    priors: list[float] | None = None,
) -> Edited:
    counts = support.counts(len(classes))
    settings, given = dict(update.settings), update.settings.get("prior", "uniform")
    if isinstance(given, list):
        settings["prior"] = given = priors or _grown(given, len(classes))
    fresh = head.fresh()
    place = next(iter(head.configured())).device
    fresh.configure(support.features.to(place), support.labels)
    shares: Prior = torch.tensor(given) if isinstance(given, list) else given
    prior = log_prior(shares, torch.tensor(counts))
    judgement = judge(fresh, support.features, support.labels, support.unseen, prior, seed=update.seed)
    results = {k: v for k, v in update.results.items() if k != "estimate"}
    if judgement is not None:
        results["estimate"] = judgement.results()
    edited = replace(
        update,
        classes=classes,
        counts=counts,
        head_tensors={k: v.detach().cpu().clone() for k, v in fresh.compact().items()},
        support=support,
        settings=settings,
        results=results,
        unknown=None if judgement is None else judgement.unknown,
        temperature=1.0 if judgement is None else judgement.temperature,
        edits=[*update.edits, _dated(line)],
    )
    return Edited(edited, fresh, judgement)


def _dated(line: dict[str, Any]) -> dict[str, Any]:
    return {"at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), **line}


def _without_name(edits: list[dict[str, Any]], name: Any) -> list[dict[str, Any]]:
    """The edits so far, without the name of a class that is taken out."""

    def hide(value: Any) -> Any:
        if isinstance(value, list):
            return [hide(one) for one in value]
        return "(removed)" if str(value) == str(name) else value

    return [{key: hide(value) for key, value in edit.items()} for edit in edits]


def _without(update: Update, place: int) -> list[float] | None:
    given = update.settings.get("prior", "uniform")
    return [p for c, p in enumerate(given) if c != place] if isinstance(given, list) else None


def _summed(update: Update, places: list[int], classes: int) -> list[float] | None:
    given = update.settings.get("prior", "uniform")
    if not isinstance(given, list):
        return None
    return [
        math.fsum(p for p, place in zip(given, places, strict=True) if place == c) for c in range(classes)
    ]


def _grown(given: list[float], classes: int) -> list[float]:
    """A new class is taken to be as likely as the others are on average."""
    return [*given, *[math.fsum(given) / len(given)] * (classes - len(given))]
