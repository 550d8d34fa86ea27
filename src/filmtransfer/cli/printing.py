"""Command output: stdout and stderr, JSON, and options that several commands share."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ..errors import FitWarning, SkippedImageWarning
from ..formatting import finite_json, printable, printable_line

if TYPE_CHECKING:
    from ..data import SkippedImage

WIDTH = 100  # of prose, where the terminal is not narrower

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


def is_first_process() -> bool:
    """Tell whether this is the only process, or the first that torchrun started: only that one prints."""
    return os.environ.get("RANK", "0") == "0"


class CommandGroup(typer.core.TyperGroup):
    """A command with subcommands, whose help page has the complete first sentence of each."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands; click itself would cut the sentences at the width of the page."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        rows = [(name, command.get_short_help_str(limit=1000)) for name, command in commands if command]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def command_group(help: str) -> typer.Typer:
    """Return a command with subcommands, which prints its help if none is given."""
    return typer.Typer(
        cls=CommandGroup, help=help, no_args_is_help=True, rich_markup_mode=None, suggest_commands=False
    )


@dataclass
class Screen:
    """The terminal, on which a display may draw a line: ``hidden`` hides it while something else is printed."""

    hidden: Callable[[], AbstractContextManager[None]] = nullcontext


SCREEN = Screen()


class SafeConsole(Console):
    """A console for text of others: whatever class and file names contain, a terminal shows it and obeys nothing."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of what is printed; rich adds the colours of the command itself after this."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class Printer:
    """Print text for people, or one JSON document for programs."""

    def __init__(self, as_json: bool, quiet: bool = False) -> None:
        self.as_json = as_json and not quiet
        self.out = SafeConsole(highlight=False, soft_wrap=True, emoji=False)
        self.err = SafeConsole(stderr=True, highlight=False, soft_wrap=True, emoji=False)
        if quiet:  # one of several processes: only the first one prints
            self.out.quiet = self.err.quiet = True

    def say(self, text: str = "") -> None:
        """Print a line: to stdout, or to stderr if stdout is for JSON."""
        self._print(self.err if self.as_json else self.out, printable_line(text), markup=False)

    def note(self, *texts: str) -> None:
        """Print remarks to stderr."""
        for text in texts:
            self._print(self.err, printable_line(f"note: {text}"), style="yellow", markup=False)

    def skipped(self, images: Iterable[SkippedImage]) -> None:
        """Print a note for every image that could not be used."""
        self.note(*(f"skipped: {image.name}: {image.reason}" for image in images))

    def table(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[int] = ()
    ) -> None:
        """Print a table; the columns with an index in ``right`` are aligned to the right."""
        columns = [printable_line(column) for column in columns]  # before anything is measured
        cells = [[printable_line(str(cell)) for cell in row] for row in rows]
        table = Table(box=None, header_style="bold", pad_edge=False)
        for i, column in enumerate(columns):
            # On a narrow terminal names and numbers keep their width, and texts are wrapped: nothing is cut.
            longest = max(len(row[i]) for row in [columns, *cells]) if i in (0, *right) else None
            table.add_column(
                column, justify="right" if i in right else "left", overflow="fold", min_width=longest
            )
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))  # Text: a name is never read as markup
        console = self.err if self.as_json else self.out
        if not console.is_terminal and not console.quiet:  # a pipe has no width: names are never cut
            console = SafeConsole(file=console.file, width=10_000, highlight=False, emoji=False)
        self._print(console, table)

    def facts(self, rows: Mapping[str, str]) -> None:
        """Print names and values, long values on several lines."""
        console = self.err if self.as_json else self.out
        width = min(console.width, WIDTH) if console.is_terminal else WIDTH
        label = max(map(len, rows), default=0) + 2
        for name, value in rows.items():
            lines = wrap(printable_line(value), max(width - label, 20), break_on_hyphens=False) or [""]
            self._print(console, f"{name:{label}}{lines[0]}", markup=False)
            for line in lines[1:]:
                self._print(console, " " * label + line, markup=False)

    def document(self, content: Mapping[str, object]) -> None:
        """Print the JSON document, if JSON was requested."""
        if self.as_json:
            print(json.dumps(finite_json(content), indent=2, default=str, allow_nan=False))

    def failure(self, message: str, hint: str, code: int) -> int:
        """Print an error as text and as JSON, and return the exit code."""
        self.err.print(printable_line(f"fit: {message}"), style="bold red", markup=False)
        if hint:
            self.err.print(printable_line(f"     {hint}"), markup=False)
        self.document({"error": {"message": message, "hint": hint, "exit_code": code}})
        return code

    @staticmethod
    def _print(console: Console, content: RenderableType, **options: Any) -> None:
        """Print while no display draws on the same terminal, or both would share a line."""
        with SCREEN.hidden():
            console.print(content, **options)

    @contextmanager
    def notes(self) -> Iterator[None]:
        """Print the package's warnings as notes, each once."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            finally:
                messages = (str(w.message) for w in caught if _is_note(w.category))
                self.note(*dict.fromkeys(messages))


def _is_note(category: type[Warning]) -> bool:
    """Tell whether a warning is for the user; skipped images are listed one by one (``skipped``)."""
    return issubclass(category, FitWarning) and not issubclass(category, SkippedImageWarning)


def as_typed(text: str) -> Any:
    """Return the value of an option as it was typed, for a function that checks it and whose type is a ``Literal``."""
    return text
