"""Edit a trained classifier without training: add and remove classes and photos, from the stored support features.

ψ stays as it is; the head, the temperature, the estimate and the OOD detector are rebuilt from the support features
that remain, so the result equals a head built from them in the first place. It takes milliseconds. Nothing of a removed
photo remains in the file: not its features, its name, its digest, nor its share in any sum. (ψ was fine-tuned with it,
if it was: only training again can undo that.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

import numpy as np

from ..arrays import Array, to_numpy
from ..data.inputs import Images, as_label, image_sources
from ..errors import InputError, UsageError
from ..heads import HEADS, SingularError, make_head
from ..model import Label, Support, Update
from ..model.classification import Classified, OnImages
from ..model.metadata import JsonTable
from ..model.support import digest_of, identify, name_of, no_statistics
from ..model.update import copies
from .assess.assessment import Assessment, assess_update, singular_features, with_assessment


@dataclass(frozen=True)
class Edited:
    """The update after an edit, and its assessment."""

    update: Update
    assessment: Assessment | None


class ClassifiesImages(Protocol):
    """What adding photos needs of a classifier: their features."""

    def classify(
        self, images: Images, *, strict: bool = False, on_images: OnImages | None = None
    ) -> Classified:
        """Classify images; refuse any that cannot be read if ``strict``."""
        ...


def add_images(
    update: Update,
    name: Label,
    images: Images,
    classifier: ClassifiesImages,
    on_images: OnImages | None = None,
) -> Edited:
    """Add photos, given as images, to a class; ``on_images`` is called as by ``classify``."""
    kept_support(update)  # an error before any work
    name = checked_label(update, name)
    sources = list(image_sources(images))
    features = classifier.classify(sources, strict=True, on_images=on_images).predictions.features
    names = [name_of(source, f"added {i}") for i, source in enumerate(sources)]
    return add_photos(update, name, features, names, [digest_of(source) for source in sources])


def forget_images(update: Update, images: Images) -> Edited:
    """Remove photos, given as they were at training, or by name ("cup/1.jpg")."""
    sources = image_sources(images, check=False)
    return forget_photos(update, [i for source in sources for i in find_photos(update, *identify(source))])


def add_photos(
    update: Update,
    name: Label,
    features: Array,
    names: Sequence[str],
    digests: Sequence[str],
) -> Edited:
    """Add photos to a class, which is made if it is new; photos that are stored already are skipped."""
    support, name = kept_support(update), checked_label(update, name)
    classes = list(update.classes)
    known = set(support.digests)
    new = [i for i, digest in enumerate(digests) if digest not in known and digest not in digests[:i]]
    if not new:
        raise InputError(
            "All of these photos are in this classifier already.", "Give other photos, or forget them first."
        )
    if name not in classes:
        classes.append(name)
    more = Support(
        to_numpy(features)[new].astype(np.float32),
        np.full(len(new), classes.index(name)),
        np.ones(len(new), bool),  # ψ has never seen them
        [names[i] for i in new],
        [digests[i] for i in new],
    )
    line = {"what": "add", "class": name, "photos": len(new)}
    return _rebuild(update, classes, support.join(more), line)


def forget_photos(update: Update, which: Sequence[int]) -> Edited:
    """Remove photos, by their indices among the support images."""
    support = kept_support(update)
    kept = np.ones(len(support), bool)
    kept[list(which)] = False
    left = support.select(np.flatnonzero(kept))
    counts = left.counts(len(update.classes))
    if 0 in counts:
        raise InputError(
            f"{update.classes[counts.index(0)]} would have no photo left.", "Remove the class instead."
        )
    classes = sorted({str(update.classes[int(support.labels[i])]) for i in which})
    line = {"what": "forget", "classes": classes, "photos": int((~kept).sum())}
    return _rebuild(update, update.classes, left, line)


def remove_class(update: Update, name: Label) -> Edited:
    """Remove a class and its photos."""
    support, index = kept_support(update), class_index(update, name)
    if len(update.classes) == 2:
        raise InputError(
            "A classifier needs at least two classes; this would leave one.",
            "Add another class first, or delete the file.",
        )
    left = support.select(np.flatnonzero(support.labels != index))
    labels = [-1 if c == index else c - (c > index) for c in range(len(update.classes))]
    classes = [c for c in update.classes if c != name]
    line = {"what": "remove", "photos": len(support) - len(left)}  # its name goes with it
    silent = replace(update, edits=_without_name(update.edits, name))
    return _rebuild(silent, classes, left.relabel(labels), line, labels)


def merge_classes(update: Update, names: Sequence[Label], into: Label) -> Edited:
    """Merge several classes into one."""
    if isinstance(names, str):
        raise UsageError("The classes to merge are given as a list.", f"As in [{names!r}, …].")
    support, into = kept_support(update), checked_label(update, into)
    merged = [class_index(update, name) for name in names]
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
    labels = [classes.index(into) if i in merged else classes.index(c) for i, c in enumerate(update.classes)]
    line = {"what": "merge", "classes": [str(n) for n in names], "into": into}
    return _rebuild(update, classes, support.relabel(labels), line, labels)


def rename_class(update: Update, name: Label, to: Label) -> Update:
    """Rename a class; this needs no statistics."""
    index, to = class_index(update, name), checked_label(update, to)
    if to in update.classes:
        raise InputError(f"There is a class {to} already.", "Merge them, or choose another name.")
    classes = [to if i == index else c for i, c in enumerate(update.classes)]
    line = _dated({"what": "rename", "class": name, "to": to})
    return replace(with_names(update, classes), edits=[*update.edits, line])


def with_names(update: Update, classes: Sequence[Label]) -> Update:
    """Return the update with other names of its classes, in their order; photos are named after their class folder."""
    support = update.support
    if support is not None:
        names = []
        for photo, c in zip(support.names, support.labels, strict=True):
            old, new = update.classes[c], classes[c]
            names.append(f"{new}/{photo.rpartition('/')[2]}" if photo.startswith(f"{old}/") else photo)
        support = replace(support, names=names)
    return replace(update, classes=list(classes), support=support)


def strip_statistics(update: Update) -> Update:
    """Remove the features, names and digests of the photos; the file still predicts the same."""
    line = _dated({"what": "strip", "photos": len(kept_support(update, "removed"))})
    return replace(update.compact(), edits=[*update.edits, line])


def kept_support(update: Update, purpose: str = "changed") -> Support:
    """Return the support images, or raise what to do if the file does not have them."""
    if update.support is None:
        raise no_statistics(f"its classes and photos cannot be {purpose}")
    trained = HEADS[update.head].trained_by == "batches" and update.body().train != "none"
    if purpose == "changed" and trained:
        raise InputError(
            f"A {update.head} head that was trained together with the backbone cannot be rebuilt without training.",
            f"Use another head: {', '.join(n for n, h in HEADS.items() if h.trained_by == 'episodes')}.",
        )
    return update.support


def class_index(update: Update, name: Label) -> int:
    """Return the index of a class."""
    if name not in update.classes:
        known = ", ".join(map(str, update.classes[:12]))
        raise InputError(f"There is no class {name}.", f"The classes are: {known}.")
    return update.classes.index(name)


def checked_label(update: Update, name: object) -> Label:
    """Return the label of a class as it is stored; raise an error if it is none, or of another type than the others."""
    label, text = as_label(name, "the class"), isinstance(update.classes[0], str)
    if isinstance(label, str) != text or label != label:  # only NaN differs from itself
        kind = "text" if text else "numbers"
        raise InputError(
            f"A class cannot be called {label!r}: the classes of this classifier are {kind}.",
            f"They are: {', '.join(map(repr, update.classes[:12]))}.",
        )
    return label


def find_photos(update: Update, name: str, digest: str | None) -> list[int]:
    """Return the support images with this content or, where there is no content to compare, with this name."""
    support = kept_support(update)
    if digest is not None:
        matches = [i for i, known in enumerate(support.digests) if known == digest]
    else:
        matches = [i for i, known in enumerate(support.names) if name == known or known.endswith(f"/{name}")]
    if not matches:
        raise InputError(f"No photo in this file is {name}.", "See them all with: fit show FILE --photos.")
    if digest is None and len(matches) > 1:
        same = ", ".join(support.names[i] for i in matches[:3])
        raise InputError(
            f"Several photos are called {name}: {same}.",
            "Give the class as well, as in cup/1.jpg, or the path of the photo's own file.",
        )
    return matches


def _rebuild(
    update: Update,
    classes: list[Label],
    support: Support,
    line: JsonTable,
    labels: Sequence[int] | None = None,
) -> Edited:
    """Rebuild the head for the new classes; ``labels`` are those of the old classes, −1 for one that is removed."""
    counts = support.counts(len(classes))
    settings = dict(update.settings)
    if isinstance(prior := settings.get("prior"), list):
        settings["prior"] = _changed_prior(prior, labels or range(len(prior)), len(classes))
    rebuilt = make_head(update.head, **update.head_options)
    rebuilt.set_log_weights(update.head_weights)
    try:
        rebuilt.configure(support.features, support.labels)
    except SingularError:
        raise singular_features() from None
    edited = replace(
        update,
        classes=classes,
        counts=counts,
        head_tensors=copies(rebuilt.tensors()),
        support=support,
        settings=settings,
        edits=[*update.edits, _dated(line)],
    )
    assessment = assess_update(edited)
    return Edited(with_assessment(edited, assessment), assessment)


def _dated(line: JsonTable) -> JsonTable:
    return {"at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), **line}


def _without_name(edits: list[JsonTable], name: Label) -> list[JsonTable]:
    """Return the edits so far, without the names that a removed class has had."""
    names, lines = {str(name)}, []  # the names of the class at the time of the edit

    def hide(value: object) -> object:
        if isinstance(value, list):
            return [hide(one) for one in value]
        return "(removed)" if str(value) in names else value

    for edit in reversed(edits):
        new = {str(edit[key]) for key in ("to", "into") if key in edit}
        old = {str(edit["class"])} if "to" in edit else {*edit["classes"]} if "into" in edit else set()
        former = names - new | old if new & names else names
        names |= former
        lines.append({k: hide(v) if k in ("class", "classes", "to", "into") else v for k, v in edit.items()})
        names = former
    return lines[::-1]


def _changed_prior(prior: list[float], labels: Sequence[int], classes: int) -> list[float]:
    """Sum the prior by new class; classes without an old one are as likely as the old ones are on average."""
    summed = [math.fsum(p for p, c in zip(prior, labels, strict=True) if c == new) for new in range(classes)]
    return [p if c in labels else math.fsum(prior) / len(prior) for c, p in enumerate(summed)]
