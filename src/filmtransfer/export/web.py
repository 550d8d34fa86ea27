"""A static folder that runs the model in a browser, with everything it needs inside.

    index.html app.js pixels.js style.css   the page (export/page/)
    model.onnx model.json                   the folded graph, and what the page has to know of it
    ort/                                    onnxruntime-web
    README.md                               the model card

onnxruntime-web comes from a folder, from a copy that was fetched before, or from npm.
"""

from __future__ import annotations

import html
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

from ..errors import UnavailableError, UpdateFileError
from ..estimator import FewShotClassifier
from ..files import write_atomically
from ..model import Update
from .card import card, question
from .folder import make_folder
from .int8 import Images
from .write import Exported, make_folded

VERSION = "1.30.0"  # of onnxruntime-web
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
PAGE = ("app.js", "pixels.js", "style.css")


def write_web(
    clf: FewShotClassifier,
    folder: str | Path,
    runtime: str | Path | None = None,
    images: Images | None = None,
) -> Exported:
    """Write the folder; files of ours in it are replaced, others stay."""
    engine = find_runtime(runtime)
    model, parity, loss = make_folded(clf, images)
    place = make_folder(folder)
    make_folder(place / "ort")
    title = question(clf.update_.classes)
    notes = [parity.line() + ".", *([] if loss is None else [f"{line}." for line in loss.lines()])]
    contents = {
        **{f"ort/{name}": (engine / name).read_bytes() for name in RUNTIME},
        **{name: (files(__package__) / "page" / name).read_bytes() for name in PAGE},
        "model.onnx": model,
        "model.json": _facts(clf.update_, len(model)).encode(),
        "README.md": card(clf.update_, "web", title, notes).encode(),
        "index.html": page(clf.update_, title, len(model)).encode(),  # last: it is what people open
    }
    for name, content in contents.items():
        write_atomically(place / name, content)
    sizes = {str(place / name): len(content) for name, content in contents.items()}
    return Exported(sizes, parity, loss)


def page(update: Update, title: str, size: int) -> str:
    """index.html with the names of this model."""
    classes = "".join(
        f"<li>{html.escape(str(name))} <span>{count:,} photo{'s' if count > 1 else ''}</span></li>"
        for name, count in zip(update.classes, update.counts, strict=True)
    )
    told = (
        f"Learned from {sum(update.counts):,} photos on {html.escape(update.backbone)}; "
        f"looks at {update.pixels.size} × {update.pixels.size} pixels; {size / 1e6:.1f} MB. "
        "A photo of anything else is given one of these names."
    )
    text = (files(__package__) / "page" / "index.html").read_text(encoding="utf-8")
    for name, value in (("title", html.escape(title)), ("classes", classes), ("facts", told)):
        text = text.replace("{{" + name + "}}", value)
    return text


def find_runtime(folder: str | Path | None = None) -> Path:
    """A folder with onnxruntime-web's two files: the one named, the one fetched before, or a new one."""
    if folder is not None:
        for place in (Path(folder), Path(folder, "dist"), Path(folder, "package", "dist")):
            if all((place / name).is_file() for name in RUNTIME):
                return place
        raise UpdateFileError(
            f"{folder} does not hold onnxruntime-web ({' and '.join(RUNTIME)}).",
            f"Give the folder that 'npm pack onnxruntime-web@{VERSION}' unpacks to.",
        )
    kept = Path(sys.prefix) / "share" / "onnxruntime-web"
    if not all((kept / name).is_file() for name in RUNTIME):
        fetch_runtime(kept)
    return kept


def fetch_runtime(target: Path) -> None:
    """onnxruntime-web from npm, once for this environment."""
    how = f"Give it with --ort FOLDER: 'npm pack onnxruntime-web@{VERSION}', unpacked."
    if shutil.which("npm") is None:
        raise UnavailableError("onnxruntime-web is not on this machine, and neither is npm to fetch it.", how)
    with tempfile.TemporaryDirectory() as folder:
        try:
            subprocess.run(
                ["npm", "pack", "--silent", f"onnxruntime-web@{VERSION}"],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=300,
            )
            (archive,) = Path(folder).glob("*.tgz")
            with tarfile.open(archive) as content:
                parts = {name: content.extractfile(f"package/dist/{name}") for name in RUNTIME}
                found = {name: part.read() for name, part in parts.items() if part is not None}
        except (subprocess.SubprocessError, OSError, ValueError, KeyError, tarfile.TarError) as error:
            raise UnavailableError(
                f"npm could not fetch onnxruntime-web ({type(error).__name__}).", how
            ) from None
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, part in found.items():
            write_atomically(target / name, part)
    except OSError as error:
        raise UnavailableError(f"{target} cannot be written ({error.strerror}).", how) from None


def _facts(update: Update, size: int) -> str:
    return json.dumps(
        {
            "classes": [str(name) for name in update.classes],
            "pixels": asdict(update.pixels),
            "backbone": update.backbone,
            "bytes": size,
        },
        ensure_ascii=False,
        indent=1,
    )
