"""Settings on the command line: ``--set name=value``, training settings, and groups of options that commands share."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import typer

from ..errors import UsageError
from ..training.config import Setting, settings

Command = TypeVar("Command", bound=Callable[..., None])


def read_settings(pairs: Sequence[str] | None, example: str) -> dict[str, Any]:
    """Return the settings given as name=value, values as TOML or text; ``example`` is for the error message."""
    chosen: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, value = pair.partition("=")
        if not sign:
            raise UsageError(f"--set {pair} has no value.", f"As in --set {example}.")
        chosen[name.strip()] = _read_value(value)
    return chosen


def _read_value(text: str) -> object:
    """Return a value in TOML, or the text itself if it is not TOML."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def training_options(*chosen: str) -> Callable[[Command], Command]:
    """Give a command with ``**settings`` an option for every training setting, or for the ``chosen`` ones."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [
            p.replace(kind=p.KEYWORD_ONLY) for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD
        ]
        names = [p.name for p in own]
        index = names.index("preset") + 1 if "preset" in names else len(own)
        options = [_option(one) for one in settings() if not chosen or one.name in chosen]
        parameters = [*own[:index], *options, *own[index:]]
        command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return command

    return decorate


def _option(declared: Setting) -> inspect.Parameter:
    """Return the parameter of a command for a training setting; None: not chosen."""
    values = f" One of {', '.join(declared.choices)}." if declared.choices else ""
    option = typer.Option(help=declared.help + values)
    kind: object = declared.kind
    if declared.kind is Mapping:
        option, kind = typer.Option(help=declared.help, parser=read_table, metavar="TOML"), str
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(
        declared.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def read_table(text: str) -> Mapping[str, Any]:
    """Return the value of an option that is a TOML table."""
    table = _read_value(text)
    if not isinstance(table, dict):
        raise UsageError(f"{text} is not a table.", "Write it as in '{rank = 8}'.")
    return table


def command_with_groups(app: typer.Typer, name: str) -> Callable[[Callable[..., None]], None]:
    """Register a command; a parameter whose type is a class stands for the options of its constructor."""

    def register(function: Callable[..., None]) -> None:
        options: list[inspect.Parameter] = []
        groups: dict[str, tuple[type, list[str]]] = {}
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            members = [parameter]
            if inspect.isclass(parameter.annotation):
                members = list(inspect.signature(parameter.annotation, eval_str=True).parameters.values())
                groups[parameter.name] = parameter.annotation, [member.name for member in members]
            options += [member.replace(kind=inspect.Parameter.KEYWORD_ONLY) for member in members]

        def run(**values: object) -> None:
            for parameter, (group, names) in groups.items():
                values[parameter] = group(**{name: values.pop(name) for name in names})
            function(**values)

        run.__doc__ = function.__doc__
        run.__annotations__ = {option.name: option.annotation for option in options}
        run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        app.command(name)(run)

    return register
