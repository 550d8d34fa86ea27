"""fit edit add | remove | forget | merge | rename"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..formatting import file_size, percent
from .printing import Device, Json, Printer

app = typer.Typer(
    help="Change classes and photos of an update file without training it again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

File = Annotated[Path, typer.Argument(help="An update file that keeps statistics.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Write here instead of changing the file itself.")
]
Weights = Annotated[str | None, typer.Option(help="Weights file, if the backbone needs one.")]


@app.command("add")
def add(
    file: File,
    name: Annotated[str, typer.Argument(help="The class; a new one is made.", metavar="CLASS")],
    photos: Annotated[list[Path], typer.Argument(help="Photos, or folders of photos.")],
    out: Out = None,
    weights: Weights = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Add photos to a class, or a new class."""
    from ..data import list_images

    paths = list_images(photos)
    _edit(file, out, weights, device, as_json, lambda clf: clf.add(paths, _known(clf, name)))


@app.command("remove")
def remove(
    file: File,
    name: Annotated[str, typer.Argument(help="The class.", metavar="CLASS")],
    out: Out = None,
    weights: Weights = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Remove a class and its photos."""
    _edit(file, out, weights, device, as_json, lambda clf: clf.remove_class(_known(clf, name)))


@app.command("forget")
def forget(
    file: File,
    photos: Annotated[
        list[str], typer.Argument(help="Photo files, or their names as 'fit show --photos' has them.")
    ],
    out: Out = None,
    weights: Weights = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Forget photos: nothing of them stays in the file."""
    _edit(file, out, weights, device, as_json, lambda clf: clf.forget(photos))


@app.command("merge")
def merge(
    file: File,
    names: Annotated[list[str], typer.Argument(help="The classes.", metavar="CLASSES")],
    into: Annotated[str, typer.Option(help="The name of the class they become.")],
    out: Out = None,
    weights: Weights = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Make one class of several."""
    _edit(
        file, out, weights, device, as_json,
        lambda clf: clf.merge_classes([_known(clf, name) for name in names], _known(clf, into)),
    )  # fmt: skip


@app.command("rename")
def rename(
    file: File,
    name: Annotated[str, typer.Argument(help="The class.", metavar="CLASS")],
    to: Annotated[str, typer.Argument(help="Its new name.", metavar="NAME")],
    out: Out = None,
    weights: Weights = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Give a class another name; this needs no statistics."""
    _edit(file, out, weights, device, as_json, lambda clf: clf.rename_class(_known(clf, name), to))


def _edit(
    file: Path,
    out: Path | None,
    weights: str | None,
    device: str,
    as_json: bool,
    change: Callable[[Any], object],
) -> None:
    """Load, change, and write over the file only when all went well."""
    from ..estimator import FewShotClassifier
    from ..files import check_writable

    printer = Printer(as_json)
    target = out or file
    check_writable(target)
    clf = FewShotClassifier.load(file, weights=weights, device=device)
    start = time.perf_counter()
    change(clf)
    took = time.perf_counter() - start
    written = clf.save(target)
    update = clf.update_
    printer.say(f"{_told(update.edits[-1])} in {1000 * took:.0f} ms.")
    estimate = update.results.get("estimate")
    if estimate:
        printer.say(
            f"Estimated accuracy {percent(estimate['accuracy'])} "
            f"({percent(estimate['low'])} to {percent(estimate['high'])})."
        )
    printer.say(
        f"Wrote {target}: {file_size(written)}, {len(update.classes)} classes, {sum(update.counts)} photos."
    )
    printer.document(
        {
            "file": str(target),
            "bytes": written,
            "edit": update.edits[-1],
            "seconds": round(took, 4),
            "classes": dict(zip([str(c) for c in update.classes], update.counts, strict=True)),
            "estimate": estimate,
        }
    )


def _told(edit: dict[str, Any]) -> str:
    """An edit in words."""
    photos = f"{edit.get('photos')} photo{'' if edit.get('photos') == 1 else 's'}"
    return {
        "add": f"Added {photos} of {edit.get('class')}",
        "remove": f"Removed a class of {photos}",
        "forget": f"Forgot {photos}",
        "merge": f"Merged {', '.join(edit.get('classes', []))} into {edit.get('into')}",
        "rename": f"Renamed {edit.get('class')} to {edit.get('to')}",
    }[edit["what"]]


def _known(clf: Any, text: str) -> Any:
    """The class that a word on the command line means: labels may be numbers."""
    return next((name for name in clf.update_.classes if str(name) == text), text)
