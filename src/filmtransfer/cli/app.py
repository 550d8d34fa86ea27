"""The command ``fit``: its subcommands, and how errors end it.

Exit codes: 0 success, 1 a bug of ours, 2 wrong usage, 3 unusable input, 4 unusable file, 5 not available on this
machine, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from importlib import import_module
from typing import Annotated

import click
import typer

from .. import __version__
from ..errors import FitError
from . import INTERRUPTED
from .printing import CommandGroup, Printer, is_first_process

# In the order of the help page. The module of a verb has a function of its name, or an ``app`` with subcommands.
VERBS = (
    "demo", "train", "predict", "evaluate", "show", "serve", "export", "edit", "backbones", "bench", "federate", "user",
)  # fmt: skip
PARTS = {"bench": ("bench_orbit", "bench_cnaps")}  # modules that add subcommands to that of a verb
TRAINING = ("torch", "timm", "torchvision", "sklearn")  # what prediction does not need

typer.core.HAS_RICH = False  # otherwise typer escapes the brackets of its plain help pages: \[default: 0]


def _print_version(requested: bool) -> None:
    if requested:
        print(f"fit (filmtransfer) {__version__}")
        raise typer.Exit


def common(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Few-shot image classification by FiLM Transfer: photos in, a small update file out."""
    del version


@cache
def command_line(*verbs: str) -> typer.Typer:
    """Return the command with these verbs, or with all of them: a process imports the module of its own verb only."""
    app = typer.Typer(
        name="fit",
        cls=CommandGroup,
        help="Few-shot image classification by FiLM Transfer.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        suggest_commands=False,  # click suggests one already
    )
    app.callback()(common)
    for verb in verbs or VERBS:
        module, *_ = (import_module(f".{name}", __package__) for name in (verb, *PARTS.get(verb, ())))
        if hasattr(module, "app"):
            app.add_typer(module.app, name=verb)
        else:
            app.command(verb)(getattr(module, verb))
    return app


def main(arguments: list[str] | None = None) -> int:
    """Run the command; a user's mistake prints one clear line, never a traceback."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    _limit_spinning()
    for output in (sys.stdout, sys.stderr):  # a name that the terminal cannot show must not end the command
        if hasattr(output, "reconfigure"):
            output.reconfigure(errors="backslashreplace")
    debug = "--debug" in arguments or os.environ.get("FIT_DEBUG") == "1"
    arguments = [argument for argument in arguments if argument != "--debug"]
    printer = Printer("--json" in arguments, quiet=not is_first_process())
    chosen = [verb for verb in arguments[:1] if verb in VERBS]
    command = typer.main.get_command(command_line(*chosen))
    try:
        result = command.main(args=arguments, prog_name="fit", standalone_mode=False)
        if result == INTERRUPTED:  # typer catches KeyboardInterrupt and prints nothing
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except FitError as error:
        if debug:
            raise
        return printer.failure(error.message, error.hint, error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return 2
    except click.UsageError as error:
        command_path = error.ctx.command_path if error.ctx else "fit"
        return printer.failure(error.format_message(), f"See '{command_path} --help'.", 2)
    except click.ClickException as error:
        return printer.failure(error.format_message(), "", 2)
    except (KeyboardInterrupt, click.Abort):
        return printer.failure("Interrupted.", "", INTERRUPTED)
    except BrokenPipeError:  # the program that read our output has ended
        sys.stderr.close()
        return 0
    except Exception as error:
        if debug:
            raise
        if isinstance(error, ModuleNotFoundError) and error.name in TRAINING:
            from ..installation import extra_command

            return printer.failure(
                f"This needs {error.name}, which is not installed.",
                f"Training needs the complete package: {extra_command()}",
                5,
            )
        if _out_of_memory(error):
            return printer.failure(
                "Not enough memory.", "Try a smaller --micro-batch, --support-size or --image-size.", 1
            )
        return printer.failure(
            f"Unexpected error: {type(error).__name__}: {error}",
            "This is a bug in filmtransfer. Run again with --debug and report the output.",
            1,
        )


def _limit_spinning() -> None:
    """Let threads sleep soon when they wait for each other; this has an effect only before torch and numpy are imported.

    By default torch's threads spin, and on a busy machine a step takes many times as long (docs/performance.md). So do
    those of numpy's OpenBLAS; our matrices are small, and one thread is enough for them.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _out_of_memory(error: Exception) -> bool:
    """Return whether torch ran out of memory; its messages differ between GPU and CPU."""
    message = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in message or "can't allocate memory" in message
