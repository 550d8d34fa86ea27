"""Damaged and crafted update files: each is refused with an error for people, or can be used for everything."""

from __future__ import annotations

import copy
import io
import json
import random
import struct
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from filmtransfer.backbones import backbone_facts
from filmtransfer.cli.printing import Printer
from filmtransfer.cli.show import _document, _print_update
from filmtransfer.errors import FitError
from filmtransfer.export.graph import head_graph
from filmtransfer.export.hub import config
from filmtransfer.export.model_card import model_card
from filmtransfer.export.rejection import Rejection
from filmtransfer.export.web import index_page
from filmtransfer.heads import HEADS, make_head
from filmtransfer.model import Update
from filmtransfer.model.update import copies
from filmtransfer.report import collect_update
from filmtransfer.report.page import page
from filmtransfer.serve.engine.multi_user import Member
from filmtransfer.serve.schemas import VersionPublic
from filmtransfer.serve.store.records import Version
from filmtransfer.serve.store.values import now, to_json
from filmtransfer.serve.summary import summarise_update
from filmtransfer.training.edit import forget_photos, merge_classes, rename_class, strip_statistics

RELEASED = {
    name: Path(__file__).with_name("released").joinpath(f"{name}.safetensors").read_bytes()
    for name in ("lda", "qda", "linear")
}
FEATURES = backbone_facts("efficientnet_lite0").features
QUERIES = np.random.default_rng(0).normal(0, 1, (2, FEATURES)).astype(np.float32)
VALUES = (
    None, True, False, 0, 1, -1, 2**31 - 1, 2**31, 2**63, 10**39, 10**400, 0.5, -0.0, 1e-320, 1e308,
    float("nan"), float("inf"), float("-inf"), "", "x", "a" * 2000, "\ud800", "\x1b]0;x\x07", "\u202e", "<b>", "../../x",
    [], {}, [[]], [None], [0, 0], ["x", "x"], {"": 1}, {"a": {"b": {"c": []}}}, json.loads("[" * 40 + "]" * 40),
)  # fmt: skip
DTYPES = (
    "F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2", "F4", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8", "BOOL", "C64", "X", "", 0, None,
)  # fmt: skip
SIDES = (0, 1, 2, 3, -1, 2**31, 2**63, 2**64, 1.0, None, "1", True, [1])
NUMBERS = (0, 1, 3.4e38, -3.4e38, 1e-45, 1e30, 1e15)


def with_head(update: Update, name: str) -> bytes:
    """Return the file with another head on the same support images."""
    assert update.support is not None
    head = make_head(name).configure(update.support.features, update.support.labels)
    weights = head.log_weights()
    return replace(
        update, head=name, head_options={}, head_tensors=copies(head.tensors()), head_weights=weights
    ).to_bytes()


FILES = [
    *RELEASED.values(),
    *(with_head(Update.from_bytes(RELEASED["lda"]), name) for name in HEADS if name != "linear"),
]


def split(content: bytes) -> tuple[dict[str, Any], dict[str, Any], bytearray]:
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header.pop("__metadata__")["filmtransfer"]), bytearray(content[8 + length :])


def joined(header: Any, document: Any, data: bytes) -> bytes:
    text = json.dumps({"__metadata__": {"filmtransfer": json.dumps(document)}, **header})
    return struct.pack("<Q", len(text)) + text.encode() + bytes(data)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in a document."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in [(value, key), *places(value[key])]]


def flip_bits(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    end = rng.choice([16, 2000, 10_000, len(changed)])
    for _ in range(rng.choice([1, 1, 2, 8])):
        changed[rng.randrange(min(end, len(changed)))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def truncate(content: bytes, rng: random.Random) -> bytes:
    cut = rng.choice([0, 7, 8, 9, 100, rng.randrange(len(content)), len(content) - 1])
    return rng.choice([content[:cut], content + b"\0", content + content])


def change_document(content: bytes, rng: random.Random) -> bytes:
    header, document, data = split(content)
    for _ in range(rng.choice([1, 1, 1, 2])):
        container, key = rng.choice(places(document))
        if rng.random() < 0.2:
            del container[key]
        elif rng.random() < 0.2:
            container[key] = copy.deepcopy(rng.choice([at[name] for at, name in places(document)]))
        else:
            container[key] = rng.choice(VALUES)
    return joined(header, document, data)


def change_entries(content: bytes, rng: random.Random) -> bytes:
    header, document, data = split(content)
    name = rng.choice(list(header))
    entry = header[name]
    match rng.randrange(7):
        case 0:
            entry["dtype"] = rng.choice(DTYPES)
        case 1:
            entry["shape"] = rng.choice(
                [[], [rng.choice(SIDES)] * rng.randrange(12), entry["shape"][::-1], "x", None]
            )
        case 2:
            entry["data_offsets"] = rng.choice(
                [[0, 0], [0], [-1, 4], [0, 2**64], ["a", "b"], None, [0, len(data)]]
            )
        case 3:
            other = rng.choice(list(header))
            header[name], header[other] = header[other], header[name]
        case 4:
            del header[name]
        case 5:
            header[rng.choice(["", "x", "film/", "head/x", "ood/", "support/scales", "__metadata__"])] = (
                header.pop(name)
            )
        case 6:
            container, key = rng.choice(places(header))
            container[key] = rng.choice(VALUES)
    return joined(header, document, data)


def change_numbers(content: bytes, rng: random.Random) -> bytes:
    header, document, data = split(content)
    names = [name for name in header if rng.random() < 0.02 or (rng.random() < 0.3 and "film" not in name)]
    for name in names or [rng.choice(list(header))]:
        begin, end = header[name]["data_offsets"]
        kind = {"F32": "<f4", "F64": "<f8", "I64": "<i8"}.get(header[name]["dtype"], "<i1")
        array = (
            np.frombuffer(data, kind)[begin // np.dtype(kind).itemsize :]
            if False
            else np.frombuffer(bytes(data[begin:end]), kind).copy()
        )
        value = rng.choice(NUMBERS) if kind[1] == "f" else rng.choice([0, 1, -1, 127])
        array[: rng.choice([1, len(array)])] = value
        data[begin:end] = array.tobytes()
    return joined(header, document, data)


def rewrite_text(content: bytes, rng: random.Random) -> bytes:
    """Change the text of the header: what json.dumps does not write."""
    (length,) = struct.unpack("<Q", content[:8])
    text, data = content[8 : 8 + length], content[8 + length :]
    old, new = rng.choice([
        (b"{", b'{"__metadata__":{},'), (b"F32", b"F8_E4M3"), (b"[0,", b"[NaN,"), (b"[0,", b"[1e999,"), (b":{", b":" + b"[" * 99_999),
        (b'"shape"', b'"shape":[1],"shape"'), (b"[", b"[[[["), (b'"', b'"\xff'), (b'"', b'"\\ud800'), (b":", b": "), (b"0", b"9" * 5000), (b"}", b"},"),
    ])  # fmt: skip
    text = text.replace(old, new, rng.choice([1, -1]))
    return (
        struct.pack("<Q", rng.choice([len(text), len(text), len(text), 0, 2**63, len(text) - 1]))
        + text
        + data
    )


MUTATIONS = (flip_bits, truncate, change_document, change_entries, change_numbers, rewrite_text)


def predict(update: Update, _: Path) -> None:
    predictor = update.predictor()
    predictions = predictor.predict(QUERIES)
    assert np.isfinite(predictions.probabilities).all()
    if predictor.ood is not None:
        assert np.isfinite(predictor.ood_scores(predictions)).all()
        predictor.rejected(predictions)
    if predictor.support is not None:
        predictor.explain(QUERIES)


def show(update: Update, file: Path) -> None:
    printer = Printer(as_json=False)
    printer.out.file = io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace")
    document = _document(file, 1, update, backbone_facts("efficientnet_lite0"))
    _print_update(printer, update, document, everything=True)
    json.dumps(document, allow_nan=False)


def edit(update: Update, _: Path) -> None:
    rename_class(update, update.classes[0], 7 if not isinstance(update.classes[0], str) else "new").to_bytes()
    for change in (
        strip_statistics,
        lambda update: forget_photos(update, [0]).update,
        lambda update: merge_classes(update, update.classes[:2], update.classes[0]).update,
    ):
        try:
            Update.from_bytes(change(update).to_bytes())
        except FitError:
            pass


def report(update: Update, file: Path) -> None:
    del update
    page(collect_update(file, {})).encode()


def export(update: Update, _: Path) -> None:
    rejection = Rejection.of(update.predictor())
    model_card(update, "hub", rejection).encode()
    index_page(update, rejection, "title", 1)
    json.dumps(config(update), allow_nan=False)
    head_graph(update.predictor(), rejection)


def serve(update: Update, _: Path) -> None:
    assert Member.of(update, np.ones((2, 8), np.float32), None).nbytes
    summary = json.loads(to_json(summarise_update(update)))
    VersionPublic.of(Version(1, now(), 1, "", "uploaded", summary, True)).model_dump_json()


USES: tuple[Callable[[Update, Path], None], ...] = (predict, show, edit, report, export, serve)


def try_mutation(seed: int, file: Path) -> int:
    """Mutate a released file and use it; return how many uses were possible, or −1 if it was refused."""
    rng = random.Random(seed)
    content = rng.choice(FILES)
    file.write_bytes(rng.choice(MUTATIONS)(content, rng))
    try:
        update = Update.load(file)
        update.check(FEATURES)
    except FitError:
        return -1
    done = 0
    for use in USES:
        try:
            use(replace(update), file)
            done += 1
        except FitError:
            pass
    return done


@pytest.mark.slow(seconds=20)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_changed_file_is_refused_or_can_be_used(tmp_path):
    with warnings.catch_warnings():
        counts = [try_mutation(seed, tmp_path / "x.safetensors") for seed in range(200)]
    assert counts.count(-1) > 50
    assert counts.count(len(USES)) > 20
