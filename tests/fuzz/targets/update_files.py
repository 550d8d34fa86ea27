"""Update files: read, then used for all that an update file is used for without the backbone's weights."""

from __future__ import annotations

import json
import random
import struct
import tempfile
import zlib
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from filmtransfer.backbones import backbone_facts
from filmtransfer.cli.show import show
from filmtransfer.errors import FitError
from filmtransfer.export.model_card import model_card
from filmtransfer.export.rejection import Rejection
from filmtransfer.export.web import index_page
from filmtransfer.heads import HEADS, make_head
from filmtransfer.model import Support, Update
from filmtransfer.model.update import KEY, copies
from filmtransfer.report import collect_update, page
from filmtransfer.runtime import GraphKey
from filmtransfer.runtime.facts import GraphFacts, Site
from filmtransfer.serve.engine.graph_features import GraphBackbone, GraphFeatures
from filmtransfer.serve.engine.multi_user import BatchPlan, Engine
from filmtransfer.training import edit
from filmtransfer.training.assess.assessment import assess_update, with_assessment
from tests.fuzz.mutation import mutate_bytes, mutate_json

BACKBONE, STAGE, DIGEST = "resnet18", 4, "0123456789abcdef" * 4
FACTS = backbone_facts(BACKBONE)
SPEC = replace(FACTS.pixels, size=32)
CLASSES = ["cup", "plate", "spoon"]
RNG = np.random.default_rng(0)
LABELS = np.repeat(np.arange(3), 3)
SUPPORT = Support(
    (RNG.normal(0, 1, (9, FACTS.features)) + 3 * np.eye(3, FACTS.features)[LABELS]).astype(np.float32),
    LABELS,
    np.arange(9) % 3 == 0,
    [f"{CLASSES[c]}/{i}.jpg" for i, c in enumerate(LABELS)],
    [str(i) * 32 for i in range(9)],
)
FILM = {
    f"{name}.{kind}": (RNG.normal(0, 0.1, channels) + (kind == "gamma")).astype(np.float32)
    for name, channels in zip(FACTS.site_names, FACTS.channels, strict=True)
    for kind in ("gamma", "beta")
    if FACTS.stage_of(name) >= STAGE
}


def seeds() -> list[bytes]:
    complete = [make_update(head) for head in HEADS]
    return [
        update.to_bytes()
        for update in [*complete, complete[0].compact(), replace(complete[0], temperature=0.5)]
    ]


def make_update(head: str = "lda") -> Update:
    """Return an update as a training writes it, of random features."""
    configured = make_head(head)
    names = configured.weight_names
    configured.set_log_weights(np.zeros(len(names), np.float32) if names else None)
    configured.configure(SUPPORT.features, SUPPORT.labels)
    update = Update(
        parameters=FILM,
        head=head,
        head_tensors=copies(configured.tensors()),
        head_weights=np.zeros(len(names), np.float32) if names else None,
        classes=list(CLASSES),
        counts=[3, 3, 3],
        backbone=BACKBONE,
        backbone_digest=DIGEST,
        pixels=SPEC,
        settings={"film_from": STAGE, "train": "adapter", "adapter": "film", "prior": [0.5, 0.25, 0.25]},
        results={"steps": 3, "seconds": 1.5},
        head_options=dict(configured.options()),
        versions={"filmtransfer": "0.1.0"},
        support=SUPPORT,
        edits=[{"what": "rename", "at": "2026-01-01T00:00:00Z", "class": "mug", "to": "cup"}],
    )
    return with_assessment(update, assess_update(update))


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Change the header, the document in it, or the tensors, and keep what the outer form needs."""
    try:
        (length,) = struct.unpack("<Q", data[:8])
        header, tensors = json.loads(data[8 : 8 + length]), data[8 + length :]
        which = rng.random()
        if which < 0.65:
            document = json.loads(header["__metadata__"][KEY])
            for _ in range(rng.choice((1, 1, 2))):
                document = mutate_json(document, rng)
            header["__metadata__"][KEY] = json.dumps(document)
        elif which < 0.85:
            header = mutate_json(header, rng)
        else:
            tensors = mutate_bytes(tensors, [tensors], rng)
    except (ValueError, KeyError, TypeError, IndexError, struct.error):
        return mutate_bytes(data, [data], rng)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + tensors


def run(data: bytes) -> None:
    with suppress(FitError):
        member = engine().member(data)
        engine().answers([member], np.zeros((1, 3, member.spec.size, member.spec.size), np.uint8))
    with suppress(FitError):
        engine().check(data, 512)
    try:
        update = Update.from_bytes(data)
    except FitError:
        return
    with suppress(FitError):
        update.check(FACTS.features)
        predictor = update.predictor()
        prediction = predictor.predict(RNG.normal(0, 1, (2, FACTS.features)).astype(np.float32))
        with suppress(FitError):
            predictor.rejected(prediction)
        predictor.explain(prediction.features, 3)
        rejection = Rejection.of(predictor)
        model_card(update, "hub", rejection, location="somebody/something")
        index_page(update, rejection, "title", 1000)
        update.to_bytes()
    choice = zlib.crc32(data)  # the slow uses take turns
    changes = edits(update)
    with suppress(FitError):
        changes[choice % len(changes)]().to_bytes()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "x.safetensors")
        file.write_bytes(data)
        with suppress(FitError):
            show(file, None, 10, None, True, True, bool(choice & 8))
        if choice % 8 == 0:
            with suppress(FitError):
                page(collect_update(file, {}))


def edits(update: Update) -> list[Any]:
    """Return the changes that ``fit edit`` can make, as functions that return the update after them."""
    first, last = update.classes[0], update.classes[-1]
    other: Any = "other" if isinstance(first, str) else 99
    photo = RNG.normal(0, 1, (1, FACTS.features)).astype(np.float32)
    return [
        lambda: edit.add_photos(update, first, photo, ["new"], ["f" * 32]).update,
        lambda: edit.add_photos(update, other, photo, ["new"], ["f" * 32]).update,
        lambda: edit.forget_photos(update, [0]).update,
        lambda: edit.remove_class(update, first).update,
        lambda: edit.merge_classes(update, [first, last], other).update,
        lambda: edit.rename_class(update, first, other),
        lambda: edit.strip_statistics(update),
    ]


class _Features(GraphFeatures):
    """The features of an engine, at random instead of from a graph."""

    def __init__(self) -> None:
        self.plan, self.spec, self._usual_stage = BatchPlan(1, 1, 0.0), SPEC, STAGE
        self.backbone = GraphBackbone(BACKBONE, DIGEST, FACTS.features)

    def _session(self, spec: Any, _: int | None) -> Any:
        sites = zip(FACTS.site_names, FACTS.channels, strict=True)
        facts = GraphFacts(
            GraphKey.of(BACKBONE, DIGEST, spec, 0),
            FACTS.features,
            tuple(Site(name, channels, FACTS.stage_of(name)) for name, channels in sites),
            {},
        )
        return SimpleNamespace(
            facts=facts, features=lambda pixels, *_: np.ones((len(pixels), FACTS.features), np.float32)
        )


@cache
def engine() -> Engine:
    """Return an engine of the backbone."""
    return Engine(_Features())
