"""The verbs, and what happens when one fails.

Exit codes: 0 good, 1 a bug of ours, 2 bad usage, 3 bad input, 4 bad file, 5 not available here,
130 interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import click
import typer

from .. import __version__
from ..errors import FitError
from . import (
    backbones,
    bench,
    bench_orbit,
    demo,
    edit,
    evaluate,
    export,
    federate,
    predict,
    serve,
    show,
    train,
    user,
)
from .printing import Printer


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"fit (filmtransfer) {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="fit",
    help="Few-shot image classification by FiLM Transfer.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Few-shot image classification by FiLM Transfer: photos in, a small update file out."""
    del version


app.command("demo")(demo.demo)
app.command("train")(train.train)
app.command("predict")(predict.predict)
app.command("evaluate")(evaluate.evaluate)
app.command("show")(show.show)
app.add_typer(edit.app, name="edit")
app.command("backbones")(backbones.backbones)
app.command("serve")(serve.serve)
bench.app.command("orbit")(bench_orbit.orbit)
bench.app.add_typer(bench_orbit.cnaps_app, name="cnaps")
app.command("export")(export.export)
app.add_typer(bench.app, name="bench")
app.add_typer(federate.app, name="federate")
app.add_typer(user.app, name="user")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; a user's mistake ends in one clear line, never in a traceback."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _wait_politely()
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal cannot show must not end the work
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    debug = "--debug" in words or os.environ.get("FIT_DEBUG") == "1"
    words = [word for word in words if word != "--debug"]
    first = os.environ.get("RANK", "0") == "0"  # of several processes the first one speaks
    printer = Printer("--json" in words, quiet=not first)
    command: Any = typer.main.get_command(app)
    try:
        result = command.main(args=words, prog_name="fit", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except FitError as error:
        if debug:
            raise
        return printer.failure(error.message, error.hint, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "fit"
        return printer.failure(error.format_message(), f"See '{where} --help'.", 2)
    except click.ClickException as error:
        return printer.failure(error.format_message(), "", 2)
    except (KeyboardInterrupt, click.Abort):
        return printer.failure("Interrupted.", "", 130)
    except BrokenPipeError:  # the reader of our output went away
        sys.stderr.close()
        return 0
    except Exception as error:
        if debug:
            raise
        if _out_of_memory(error):
            return printer.failure(
                "Not enough memory.", "Try a smaller --micro-batch, --support-size or --image-size.", 1
            )
        return printer.failure(
            f"Something went wrong that should not have: {type(error).__name__}: {error}",
            "Run again with --debug and report what it prints.",
            1,
        )


def _wait_politely() -> None:
    """Let torch's threads sleep soon when they wait for each other; heard only before torch is imported.

    By default they spin, and on a machine that has other work to do a step takes many times as long
    (docs/performance.md).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")


def _out_of_memory(error: Exception) -> bool:
    """torch says it in its own ways, on a GPU and on a CPU."""
    words = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in words or "can't allocate memory" in words
