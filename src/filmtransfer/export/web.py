"""Write a static folder that runs the model in a browser, with everything it needs inside.

    index.html app.js pixels.js style.css   the page (export/page/)
    model.onnx model.json                   the folded graph, and its metadata for the page
    ort/                                    onnxruntime-web
    README.md                               the model card

onnxruntime-web comes from a folder, from the copy downloaded before, or from npm (npm.py).
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from ..errors import UpdateFileError
from ..estimator import FewShotClassifier
from ..files import make_folder, write_atomically
from ..formatting import count, file_size
from ..model import Update
from ..model.ood import FALSE_ALARM
from ..report.markup import text
from .model_card import default_title, model_card
from .npm import ONNXRUNTIME_WEB, fetch_files
from .quantisation import CalibrationImages
from .rejection import Rejection
from .write import ExportResult, build_folded

RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
CACHED_RUNTIME = Path(sys.prefix) / "share" / "onnxruntime-web"
PAGE = ("app.js", "pixels.js", "style.css")
REJECTED_PHOTOS = (
    "A photo that resembles none of these classes is answered with “None of these”; about {rate} of the photos that do show "
    "one of them are rejected as well."
)
OTHER_PHOTOS = "A photo of anything else is also assigned to one of these classes."


def write_web(
    clf: FewShotClassifier,
    folder: str | Path,
    runtime: str | Path | None = None,
    images: CalibrationImages | None = None,
    false_alarm: float = FALSE_ALARM,
) -> ExportResult:
    """Write the folder; our own files in it are replaced, others stay."""
    runtime_folder = find_runtime(runtime)
    model, parity, loss = build_folded(clf, images, false_alarm)
    rejection = Rejection.of(clf.predictor_, false_alarm)
    target = make_folder(folder)
    make_folder(target / "ort")
    update, title = clf.update_, default_title(clf.update_.classes)
    notes = [f"{line}." for line in [parity.line(), *([] if loss is None else loss.lines())]]
    contents = {
        **{f"ort/{name}": (runtime_folder / name).read_bytes() for name in RUNTIME},
        **{name: (files(__package__) / "page" / name).read_bytes() for name in PAGE},
        "model.onnx": model,
        "model.json": _metadata(update, rejection, len(model)),
        "README.md": model_card(update, "web", rejection, title, notes).encode(),
        "index.html": index_page(
            update, rejection, title, len(model)
        ).encode(),  # last: it is the file that people open
    }
    for name, content in contents.items():
        write_atomically(target / name, content)
    return ExportResult(
        {str(target / name): len(content) for name, content in contents.items()}, parity, rejection, loss
    )


def index_page(update: Update, rejection: Rejection, title: str, model_bytes: int) -> str:
    """Return index.html with this model's title and classes."""
    classes = "".join(
        f"<li>{text(name)} <span>{count(photos, 'photo')}</span></li>"
        for name, photos in zip(update.classes, update.counts, strict=True)
    )
    facts = (
        f"Trained on {sum(update.counts):,} photos with {text(update.backbone)}; "
        f"input {update.pixels.size} × {update.pixels.size} pixels; {file_size(model_bytes)}. "
        f"{OTHER_PHOTOS if rejection.detector is None else REJECTED_PHOTOS.format(rate=rejection.rate)}"
    )
    values = {"title": text(title), "classes": classes, "facts": facts}
    template = (files(__package__) / "page" / "index.html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(title|classes|facts)\}\}", lambda found: values[found[1]], template)


def find_runtime(folder: str | Path | None = None) -> Path:
    """Return a folder with onnxruntime-web's two files: the given one, or this environment's, downloaded if necessary."""
    if folder is not None:
        for candidate in (Path(folder), Path(folder, "dist"), Path(folder, "package", "dist")):
            if all((candidate / name).is_file() for name in RUNTIME):
                return candidate
        raise UpdateFileError(
            f"{folder} does not contain onnxruntime-web ({' and '.join(RUNTIME)}).",
            f"Give the folder that 'npm pack {ONNXRUNTIME_WEB}' unpacks to.",
        )
    if cached_runtime() is None:
        download_runtime(CACHED_RUNTIME)
    return CACHED_RUNTIME


def cached_runtime() -> Path | None:
    """Return the folder of the copy downloaded before, if there is one."""
    complete = all((CACHED_RUNTIME / name).is_file() for name in RUNTIME)
    return CACHED_RUNTIME if complete else None


def download_runtime(target: Path) -> None:
    """Download onnxruntime-web from npm, once for this environment."""
    members = {name: f"dist/{name}" for name in RUNTIME}
    fetch_files(
        ONNXRUNTIME_WEB,
        members,
        target,
        f"Give it with --ort FOLDER: 'npm pack {ONNXRUNTIME_WEB}', unpacked.",
    )


def _metadata(update: Update, rejection: Rejection, model_bytes: int) -> bytes:
    return json.dumps(
        {
            "classes": [str(name) for name in update.classes],
            "pixels": asdict(update.pixels),
            "backbone": update.backbone,
            "rejection": rejection.metadata(),
            "bytes": model_bytes,
        },
        ensure_ascii=False,
        allow_nan=False,
        indent=1,
    ).encode("utf-8", "backslashreplace")  # which is how JSON spells unpaired surrogates
