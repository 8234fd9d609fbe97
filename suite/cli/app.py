"""The command line as typer's application, assembled from the requests. Each subcommand is a module of its own."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperArgument

from attnsuite.cli import requests
from attnsuite.cli.ending import until_interrupted
from attnsuite.cli.options import signature
from attnsuite.model.words import VERSION

COMMANDS: Mapping[str, type] = {
    "list": requests.List,
    "new": requests.New,
    "check": requests.Check,
    "bench": requests.Bench,
    "export": requests.Export,
    "audit": requests.Audit,
    "learn": requests.Learn,
    "claims": requests.Claims,
    "report": requests.Report,
    "run": requests.Run,
    "sweep": requests.Sweep,
    "history": requests.History,
    "draw": requests.Draw,
    "compare": requests.Compare,
    "verify": requests.Verify,
}
"""The subcommands in workflow order. The function `run` of `attnsuite.cli.NAME` carries out a request."""


def application() -> typer.Typer:
    """The application; it returns what a subcommand's `run` returns."""
    TyperArgument.display_type_rich = lambda self, ctx: None  # type: ignore[method-assign]  # help without Python's types
    app = typer.Typer(
        name="attnsuite",
        add_completion=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_attnsuite)
    for name, request in COMMANDS.items():
        app.command(name, help=request.__doc__)(_command(name, request))
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


def _command(name: str, request: type) -> Callable[..., int | None]:
    """A function with the fields of a request as its parameters, as typer wants it."""

    def run(**values: Any) -> int | None:
        chosen = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
        carry_out: Callable[[Any], int | None] = import_module(f"attnsuite.cli.{name}").run
        return until_interrupted(lambda: carry_out(request(**chosen)))

    run.__signature__ = signature(request)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run
