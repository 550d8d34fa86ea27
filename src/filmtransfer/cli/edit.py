"""fit edit add | remove | forget | merge | rename"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..formatting import count, file_size, percent
from .printing import Device, Json, Printer, Weights, command_group
from .settings import command_with_groups

if TYPE_CHECKING:
    from ..model import Update
    from ..model.metadata import JsonTable
    from ..model.support import Label

app = command_group("Change classes and photos of an update file without training it again.")
command = partial(command_with_groups, app)


@dataclass(frozen=True)
class EditTarget:
    """The file and the options of all commands."""

    file: Annotated[Path, typer.Argument(help="An update file that keeps statistics.")]
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write here instead of changing the file itself.")
    ] = None
    weights: Weights = None
    device: Device = "auto"
    as_json: Json = False

    def edit(self, change: Callable[[Update], Update]) -> None:
        """Load the update, apply the change, and write the file only if it succeeded."""
        from ..files import check_writable
        from ..model import Update

        printer, target = Printer(self.as_json), self.out or self.file
        check_writable(target)
        update = Update.load(self.file)
        start = time.perf_counter()
        update = change(update)
        seconds = time.perf_counter() - start
        written = update.save(target)
        printer.say(f"{_describe(update.edits[-1])} in {1000 * seconds:.0f} ms.")
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
                "seconds": round(seconds, 4),
                "classes": dict(zip([str(c) for c in update.classes], update.counts, strict=True)),
                "estimate": estimate,
            }
        )


@command("add")
def add(
    target: EditTarget,
    name: Annotated[str, typer.Argument(help="The class; a new one is created.", metavar="CLASS")],
    photos: Annotated[list[Path], typer.Argument(help="Photos, or folders of photos.")],
) -> None:
    """Add photos to a class, or a new class."""
    from ..data import list_images
    from ..predictor import Predictor
    from ..training.edit import add_images

    paths = list_images(photos)

    def change(update: Update) -> Update:
        classifier = Predictor.load(target.file, weights=target.weights, device=target.device)
        return add_images(update, _class_named(update, name), paths, classifier).update

    target.edit(change)


@command("remove")
def remove(
    target: EditTarget, name: Annotated[str, typer.Argument(help="The class.", metavar="CLASS")]
) -> None:
    """Remove a class and its photos."""
    from ..training.edit import remove_class

    target.edit(lambda update: remove_class(update, _class_named(update, name)).update)


@command("forget")
def forget(
    target: EditTarget,
    photos: Annotated[
        list[str], typer.Argument(help="Photo files, or their names as listed by 'fit show --photos'.")
    ],
) -> None:
    """Forget photos: nothing of them remains in the file."""
    from ..training.edit import forget_images

    target.edit(lambda update: forget_images(update, photos).update)


@command("merge")
def merge(
    target: EditTarget,
    names: Annotated[list[str], typer.Argument(help="The classes.", metavar="CLASSES")],
    into: Annotated[str, typer.Option(help="The name of the class they become.")],
) -> None:
    """Merge several classes into one."""
    from ..training.edit import merge_classes

    def change(update: Update) -> Update:
        merged = [_class_named(update, name) for name in names]
        return merge_classes(update, merged, _class_named(update, into)).update

    target.edit(change)


@command("rename")
def rename(
    target: EditTarget,
    name: Annotated[str, typer.Argument(help="The class.", metavar="CLASS")],
    to: Annotated[str, typer.Argument(help="Its new name.", metavar="NAME")],
) -> None:
    """Rename a class; this needs no statistics."""
    from ..training.edit import rename_class

    target.edit(lambda update: rename_class(update, _class_named(update, name), to))


def _describe(edit: JsonTable) -> str:
    """Return a sentence about an edit."""
    photos = count(edit.get("photos", 0), "photo")
    return {
        "add": f"Added {photos} of {edit.get('class')}",
        "remove": f"Removed a class of {photos}",
        "forget": f"Forgot {photos}",
        "merge": f"Merged {', '.join(edit.get('classes', []))} into {edit.get('into')}",
        "rename": f"Renamed {edit.get('class')} to {edit.get('to')}",
    }[edit["what"]]


def _class_named(update: Update, text: str) -> Label:
    """Return the class with this name; a class of the update may be a number."""
    return next((name for name in update.classes if str(name) == text), text)
