"""Command output: stdout and stderr, JSON, the progress bar, and options that several commands share."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..errors import FitWarning
from ..formatting import duration

if TYPE_CHECKING:
    from ..data import SkippedImage
    from ..training.callbacks import Progress as StepProgress

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout, everything else on stderr.")]

Device = Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu, cuda, cuda:N or mps.")]
PredictionDevice = Annotated[
    str,
    typer.Option(
        "--device",
        help="auto (the CPU where the backbone is prepared for onnxruntime, else a GPU if there is one), cpu, cuda, cuda:N or mps.",
    ),
]
RuntimeOption = Annotated[
    str,
    typer.Option(
        "--runtime",
        help="What computes features: onnx (without torch), torch, or auto: onnx where its graph is prepared.",
    ),
]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads; by default the number of cores available to this process.")
]
Backbone = Annotated[str, typer.Option(help="Pretrained backbone; see 'fit backbones'.")]
UpdateFile = Annotated[Path, typer.Argument(help="An update file.")]
Weights = Annotated[str | None, typer.Option(help="Weights file, if the backbone needs one.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse unreadable images.")]


def command_group(help: str) -> typer.Typer:
    """Return a command with subcommands, which prints its help if none is given."""
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


class Printer:
    """Print text for people, or one JSON document for programs."""

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        self.as_json = as_json and not quiet
        self.out = Console(highlight=False, soft_wrap=True, emoji=False)
        self.err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        if quiet:  # one of several processes: only the first one prints
            self.out.quiet = self.err.quiet = True

    def say(self, text: str = "") -> None:
        """Print a line: to stdout, or to stderr if stdout is for JSON."""
        (self.err if self.as_json else self.out).print(text, markup=False)

    def note(self, *texts: str) -> None:
        """Print remarks to stderr."""
        for text in texts:
            self.err.print(f"note: {text}", style="yellow", markup=False)

    def skipped(self, images: Iterable[SkippedImage]) -> None:
        """Print a note for every image that could not be used."""
        self.note(*(f"skipped: {image.name}: {image.reason}" for image in images))

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()
    ) -> None:
        """Print a table; the columns with an index in ``right`` are aligned to the right."""
        table = Table(box=None, header_style="bold", pad_edge=False)
        for i, column in enumerate(columns):
            table.add_column(column, justify="right" if i in right else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(Text(str(cell)) for cell in row))  # Text: a name is never read as markup
        console = self.err if self.as_json else self.out
        if not console.is_terminal and not console.quiet:  # a pipe has no width: names are never cut
            console = Console(file=console.file, width=10_000, highlight=False, emoji=False)
        console.print(table)

    def document(self, content: Mapping[str, object]) -> None:
        """Print the JSON document, if JSON was requested."""
        if self.as_json:
            print(json.dumps(content, indent=2, default=str))

    def failure(self, message: str, hint: str, code: int) -> int:
        """Print an error as text and as JSON, and return the exit code."""
        self.err.print(f"fit: {message}", style="bold red", markup=False)
        if hint:
            self.err.print(f"     {hint}", markup=False)
        self.document({"error": {"message": message, "hint": hint, "exit_code": code}})
        return code

    @contextmanager
    def notes(self) -> Iterator[None]:
        """Print the package's warnings as notes, each once."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                messages = (str(w.message) for w in caught if issubclass(w.category, FitWarning))
                self.note(*dict.fromkeys(messages))


@contextmanager
def progress_bar(quiet: bool = False) -> Iterator[Callable[[StepProgress], None] | None]:
    """Yield a callback for each training step's progress; None without a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    with progress_line("fine-tuning") as show:

        def on_step(step: StepProgress) -> None:
            left = f"{duration(step.seconds_left)} left"
            show(step.step, step.steps, f"loss {step.loss:.3f}  accuracy {step.accuracy:.0%}  {left}")

        yield on_step


@contextmanager
def progress_line(title: str = "") -> Iterator[Callable[[int, int, str], None]]:
    """Yield a callback that takes done, total and a description; it draws nothing without a terminal."""
    if not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn

    columns: list[ProgressColumn] = [BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}")]
    if title:
        columns.insert(0, TextColumn(title))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)
