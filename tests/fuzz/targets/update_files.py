"""Update files: read, then used for all that an update file is used for without the backbone's weights."""

from __future__ import annotations

import json
import math
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
from filmtransfer.export.graph import head_graph
from filmtransfer.export.hub import config
from filmtransfer.export.model_card import model_card
from filmtransfer.export.rejection import Rejection
from filmtransfer.export.web import index_page
from filmtransfer.heads import HEADS, make_head
from filmtransfer.model import Support, Update
from filmtransfer.model.score_sums import BINS, ScoreSums
from filmtransfer.model.update import KEY, copies
from filmtransfer.report import collect_update, page
from filmtransfer.runtime import GraphKey
from filmtransfer.runtime.facts import GraphFacts, Site
from filmtransfer.serve.engine.graph_features import GraphBackbone, GraphFeatures
from filmtransfer.serve.engine.multi_user import BatchPlan, Engine
from filmtransfer.serve.schemas import VersionPublic
from filmtransfer.serve.store.records import Version
from filmtransfer.serve.store.values import now, to_json
from filmtransfer.serve.summary import summarise_update
from filmtransfer.training import edit
from filmtransfer.training.assess.assessment import assess_update, with_assessment
from tests.fuzz.mutation import mutate_bytes, mutate_json

BACKBONE, STAGE, DIGEST = "resnet18", 4, "0123456789abcdef" * 4
FACTS = backbone_facts(BACKBONE)
SPEC = replace(FACTS.pixels, size=32)
CLASSES = ["cup", "plate", "spoon"]
RNG = np.random.default_rng(0)
DTYPES = (
    "F64",
    "F32",
    "F16",
    "BF16",
    "F8_E4M3",
    "F4",
    "I64",
    "I32",
    "I16",
    "I8",
    "U64",
    "U8",
    "BOOL",
    "C64",
    "X",
    "",
    0,
    None,
)
FLOATS = (0.0, 1.0, -1.0, 3.4e38, -3.4e38, 1e-45, 1e30, 1e15, float("nan"), float("inf"))
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
    lda = make_update()
    updates = [make_update(head) for head in HEADS]
    updates += [with_factors(make_update(head)) for head in ("qda", "mahalanobis")]
    updates += [lda.compact(), replace(lda, temperature=0.5), replace(lda, classes=[1, 2, 3]), with_sums(lda)]
    return [update.to_bytes() for update in updates]


def with_factors(update: Update) -> Update:
    """Return the update with the head in the form for many photos of few features."""
    head = make_head(update.head)
    features = np.ascontiguousarray(np.repeat(SUPPORT.features[:, :2], 3, 0)) + RNG.normal(
        0, 1, (27, 2)
    ).astype(np.float32)
    head.set_log_weights(update.head_weights)
    head.configure(features, np.repeat(LABELS, 3))
    return replace(update, head_tensors=copies(head.tensors()), counts=[9, 9, 9], support=None, ood=None)


def with_sums(update: Update) -> Update:
    """Return the update with an OOD detector as a federation makes it."""
    assert update.ood is not None
    a, b = RNG.normal(0, 1, (2, 40))
    counts = np.bincount(RNG.integers(200, 280, 40), minlength=BINS)
    sums = ScoreSums.of(np.array([40, a.sum(), b.sum(), a @ a, a @ b, b @ b]), counts)
    return replace(update, ood=replace(update.ood, sums=sums), support=None)


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
    """Change the document, the entries of the header or the arrays, and keep what the outer form needs."""
    try:
        (length,) = struct.unpack("<Q", data[:8])
        header, arrays = json.loads(data[8 : 8 + length]), data[8 + length :]
        which = rng.random()
        if which < 0.5:
            document = json.loads(header["__metadata__"][KEY])
            for _ in range(rng.choice((1, 1, 2))):
                document = mutate_json(document, rng)
            header["__metadata__"][KEY] = json.dumps(document)
        elif which < 0.65:
            header = mutate_json(header, rng)
        elif which < 0.85:
            change_entry(header, rng)
        else:
            arrays = change_array(header, arrays, rng)
    except (ValueError, KeyError, TypeError, IndexError, struct.error):
        return mutate_bytes(data, [data], rng)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + arrays


def change_entry(header: dict[str, Any], rng: random.Random) -> None:
    """Rename an array, or give it another type, or another shape of the same size."""
    arrays = [name for name in header if name != "__metadata__"]
    name, change = rng.choice(arrays), rng.randrange(4)
    entry = header[name]
    if change == 0:
        group, _, last = rng.choice(arrays).partition("/")
        header[rng.choice((f"{group}/x", f"{name.partition('/')[0]}/{last}", "x"))] = header.pop(name)
    elif change == 1:
        entry["dtype"] = rng.choice(DTYPES)
    elif change == 2:
        other = rng.choice(arrays)
        header[name], header[other] = header[other], entry
    else:
        shape = entry["shape"]
        size = math.prod(shape)
        entry["shape"] = rng.choice(
            ([size], [*shape, 1], [1, *shape], shape[::-1], [size, 1], [0, *shape], [])
        )


def change_array(header: dict[str, Any], arrays: bytes, rng: random.Random) -> bytes:
    """Set a value of an array, or all of them, to one that arithmetic may not survive."""
    entry = header[rng.choice([name for name in header if name != "__metadata__"])]
    kind = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I16": "<i2"}.get(entry["dtype"], "<i1")
    begin, end = entry["data_offsets"]
    values = np.frombuffer(arrays[begin:end], kind).copy()
    which = slice(None) if rng.random() < 0.5 else rng.randrange(max(1, len(values)))
    values[which] = rng.choice(FLOATS) if kind[1] == "f" else rng.choice((0, 1, -1, 127))
    return arrays[:begin] + values.tobytes() + arrays[end:]


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
        assert np.isfinite(prediction.probabilities).all()
        model_card(update, "hub", rejection, location="somebody/something")
        index_page(update, rejection, "title", 1000)
        json.dumps(config(update), allow_nan=False)
        head_graph(predictor, rejection)
        summary = json.loads(to_json(summarise_update(update)))
        VersionPublic.of(Version(1, now(), 1, "", "uploaded", summary, True)).model_dump_json()
        update.to_bytes()
    choice = zlib.crc32(data)  # the slow uses take turns
    changes = edits(update)
    with suppress(FitError):
        Update.from_bytes(changes[choice % len(changes)]().to_bytes())
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
