"""The command line as typer's application, assembled from the subcommands' declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, get_type_hints

import typer

from attnsuite.cli.declared import COMMANDS
from attnsuite.cli.declared.common import Command
from attnsuite.model.version import VERSION


def application(commands: Mapping[str, type[Command]] = COMMANDS) -> typer.Typer:
    """The application with these subcommands. What a subcommand's `run` returns is what the application returns."""
    app = typer.Typer(
        name="attnsuite",
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_attnsuite)
    for name, command in commands.items():
        app.command(name, help=command.__doc__)(_called(command))
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"attnsuite {VERSION}")
        raise typer.Exit


def _attnsuite(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A conformance and benchmark suite for attention."""


def _called(command: type[Command]) -> Callable[..., int | None]:
    """A function that takes the fields of a declaration as its parameters, as typer wants it."""

    def run(**given: Any) -> int | None:
        return command(**given).run()

    hints = get_type_hints(command, include_extras=True)
    parameters = [_parameter(each, hints[each.name]) for each in fields(command)]  # type: ignore[arg-type]
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def _parameter(of: Field[Any], hint: Any) -> Parameter:
    default = of.default_factory() if of.default_factory is not MISSING else of.default
    return Parameter(
        of.name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if default is MISSING else default,
        annotation=hint,
    )
