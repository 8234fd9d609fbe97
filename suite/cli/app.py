"""The command line as typer's application, assembled from the requests. Each subcommand is a module of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperArgument

from attnsuite.cli import requests
from attnsuite.cli.interrupting import until_interrupted
from attnsuite.cli.options import signature
from attnsuite.model import UsageError
from attnsuite.model.version import VERSION

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
REMOVED: Mapping[tuple[str, str], str] = {
    ("migrate", ""): "`migrate` was removed: run `attnsuite run`, which writes results/ in today's layout",
    ("merge", ""): "`merge` was removed: use `attnsuite report DIR... --results OUT`",
    ("check", "--last-failed"): "--last-failed was removed: use `pytest --attention FILE --lf`",
    ("bench", "--ask-again"): "--ask-again was renamed: use --recheck",
    ("check", "--known-gaps"): "--known-gaps was renamed: use --xfails",
    ("compare", "--python"): "--python was removed: store results in each environment, and compare the two folders",
    ("learn", "--pairs"): "--pairs was removed: to train on other data, write a task in tasks.py",
    ("learn", "--examples"): "--examples was removed: translators train on all shipped pairs",
    ("learn", "--jobs"): "--jobs was removed: run one command per task, each with its own --results, and merge them",
    ("history", "--by-commit"): "--by-commit was removed: runs are always in the order of their start",
    ("sweep", "--attempts"): "--attempts was removed: repeat the command, which starts what is missing",
    ("sweep", "--results"): '--results was removed: write `results = "DIR"` into the sweep file',
}
"""What to use in place of subcommands and options that earlier versions had."""


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


def refuse_removed(arguments: Sequence[str]) -> None:
    """Raise UsageError for a removed subcommand or option; the message names the replacement."""
    command = next(iter(arguments), "")
    for word in ("", *(word.partition("=")[0] for word in arguments[1:])):
        if replacement := REMOVED.get((command, word)):
            raise UsageError(replacement)


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
