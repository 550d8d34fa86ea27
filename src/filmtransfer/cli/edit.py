"""fit edit add | remove | forget | merge | rename | strip"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import FitError
from ..formatting import count, file_size
from .printing import Device, Json, Printer, Weights, as_typed, command_group
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

    file: Annotated[
        Path, typer.Argument(help="An update file; renaming a class works without statistics, too.")
    ]
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write here instead of changing the file itself.")
    ] = None
    weights: Weights = None
    device: Device = "auto"
    as_json: Json = False

    def edit(
        self, change: Callable[[Update], Update], pictures: Callable[[], Mapping[str, bytes]] = dict
    ) -> None:
        """Load the update, apply the change, and write the file and its report only if it succeeded.

        ``pictures`` returns the thumbnails of photos that the change adds, by digest.
        """
        from ..files import check_writable
        from ..model import Update, describe_estimate

        printer, target = Printer(self.as_json), self.out or self.file
        check_writable(target)
        before = Update.load(self.file)
        start = time.perf_counter()
        update = change(before)
        seconds = time.perf_counter() - start
        written = update.save(target)
        printer.say(f"{_describe(update.edits[-1])} in {1000 * seconds:.0f} ms.")
        printer.say(describe_estimate(update.estimate))
        photos = count(sum(update.counts), "photo")
        printer.say(f"Wrote {target}: {file_size(written)}, {len(update.classes)} classes, {photos}.")
        if update.edits[-1]["what"] == "strip":  # the classifier is the same, and so is its report
            report, unchanged = None, []
        else:
            report = self._rewrite_report(printer, pictures)
            unchanged = self._unchanged(report)
            _say_what_remains(printer, before, update, unchanged)
        printer.document(
            {
                "file": str(target),
                "bytes": written,
                "edit": update.edits[-1],
                "seconds": round(seconds, 4),
                "classes": dict(zip([str(c) for c in update.classes], update.counts, strict=True)),
                "estimate": update.results.get("estimate"),
                "report": None if report is None else str(report),
                "unchanged": [str(path) for path in unchanged],
            }
        )

    @property
    def report(self) -> Path:
        """The report beside the update file; it need not exist."""
        from ..files import report_path

        return report_path(self.file)

    def _unchanged(self, rewritten: Path | None) -> list[Path]:
        """Return the update file and its report, those that were left as they were."""
        report = [self.report] if self.report.is_file() and self.report != rewritten else []
        in_place = self.out is None or self.out.resolve() == self.file.resolve()
        return report if in_place else [self.file, *report]

    def _rewrite_report(self, printer: Printer, pictures: Callable[[], Mapping[str, bytes]]) -> Path | None:
        """Write the report beside the file again, if there is one, and return its path; None if that is not possible."""
        from ..files import report_path

        target = self.out or self.file
        if not self.report.is_file():
            return None
        from ..report import rewrite_report

        page = report_path(target)
        try:
            rewritten = rewrite_report(self.report, target, added=pictures(), out=page)
        except FitError as error:  # the update is written already: the edit has succeeded
            printer.note(error.message)
            rewritten = False
        if not rewritten:
            return None
        printer.say(f"Wrote {page}: the report after this edit.")
        return page


@command("add")
def add(
    target: EditTarget,
    name: Annotated[str, typer.Argument(help="The class; a new one is created.", metavar="CLASS")],
    photos: Annotated[list[Path], typer.Argument(help="Photos, or folders of photos.")],
) -> None:
    """Add photos to a class, or a new class."""
    from ..data import list_images
    from ..model.support import digest_of
    from ..predictor import Predictor
    from ..report.pictures import PhotoRecorder
    from ..training.edit import add_images

    paths, recorder = list_images(photos), PhotoRecorder()

    def change(update: Update) -> Update:
        classifier = Predictor.load(target.file, weights=target.weights, device=as_typed(target.device))
        label = _class_named(update, name)
        return add_images(update, label, paths, classifier, recorder.on_images).update

    def pictures() -> Mapping[str, bytes]:
        return dict(zip(map(digest_of, paths), recorder.thumbnails, strict=True))

    target.edit(change, pictures)


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


@command("strip")
def strip(target: EditTarget) -> None:
    """Remove the statistics (features, names and digests of the photos): a smaller file to share, not to edit."""
    from ..training.edit import strip_statistics

    target.edit(strip_statistics)


def _describe(edit: JsonTable) -> str:
    """Return a sentence about an edit."""
    photos = count(edit.get("photos", 0), "photo")
    return {
        "add": f"Added {photos} of {edit.get('class')}",
        "remove": f"Removed a class of {photos}",
        "forget": f"Forgot {photos}",
        "merge": f"Merged {', '.join(edit.get('classes', []))} into {edit.get('into')}",
        "strip": f"Removed the statistics of {photos}",
        "rename": f"Renamed {edit.get('class')} to {edit.get('to')}",
    }[edit["what"]]


def _say_what_remains(printer: Printer, before: Update, update: Update, unchanged: list[Path]) -> None:
    """Say which files may still contain what was removed, and what only another training can remove."""
    if before.support is None or update.support is None or len(update.support) >= len(before.support):
        if len(unchanged) == 1 and unchanged[0].suffix == ".html":
            printer.note(f"{unchanged[0]} still describes the classifier before this edit.")
        return
    photos = len(before.support) - len(update.support)
    what = "the class" if update.edits[-1]["what"] == "remove" else f"the photo{'s' if photos > 1 else ''}"
    if unchanged:
        files = " and ".join(map(str, unchanged))
        were = "were" if len(unchanged) > 1 else "was"
        printer.note(f"{files} {were} not changed and may still contain {what}. Delete what you do not need.")
    printer.say(f"Copies, exports and reports in other places may still contain {what}.")
    tuned = _fine_tuned_on(before) - _fine_tuned_on(update)
    if tuned:
        subject = "this photo" if photos == 1 else f"{'' if tuned == photos else f'{tuned} of '}these photos"
        printer.say(f"Fine-tuning has used {subject}; only training again removes that influence.")


def _fine_tuned_on(update: Update) -> int:
    """Return how many of the photos in an update fine-tuning has used."""
    from ..model.estimate import was_fine_tuned

    if update.support is None or not was_fine_tuned(update.results):
        return 0
    return int((~update.support.held_out).sum())


def _class_named(update: Update, text: str) -> Label:
    """Return the class with this name; a class of the update may be a number."""
    return next((name for name in update.classes if str(name) == text), text)
