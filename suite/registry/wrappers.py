"""Python for the user: a function of a contract around one that no test can call."""

import inspect
from collections.abc import Iterable, Sequence
from pathlib import Path

from attnsuite.registry.declaration import Declaration
from attnsuite.registry.signatures import SIGNATURES_OF

FILL_IN = "...  # fill in"
"""In place of a value that only the author knows."""


def fill_in(names: Iterable[str]) -> list[str]:
    """A line for each value that the author has to fill in."""
    return [f"    {name} = {FILL_IN}" for name in names]


def around_function(
    declaration: Declaration, parameters: Sequence[inspect.Parameter], inputs: Sequence[str], misplaced: bool
) -> tuple[list[str], list[str]]:
    """The arguments that a function gets, and the lines of a function of the contract around it.

    `inputs` are the contract's. A parameter corresponds to an input by its name or its first letter, else by its place,
    unless places are `misplaced`.
    """
    letters = {name[0]: name for name in inputs} if declaration.contract == SIGNATURES_OF else {}
    roles = letters | {name: name for name in inputs}
    if not {*inputs} <= {roles.get(parameter.name) for parameter in parameters}:
        places = (
            []
            if misplaced
            else [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]
        )
        roles = dict(zip(places, inputs, strict=False))
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty or parameter.name in roles]
    passed = [roles.get(parameter.name, parameter.name) for parameter in needed]
    arguments = [
        f"{parameter.name}={value}" if parameter.kind is parameter.KEYWORD_ONLY else value
        for parameter, value in zip(needed, passed, strict=True)
    ]
    home, (name, dot, attribute) = (
        declaration.module or Path(declaration.file).stem,
        declaration.function.partition("."),
    )
    return passed, [
        f"from {home} import {name} as mine" if home and name else f"mine = {declaration.name}",
        "",
        f"def {declaration.contract}({', '.join(inputs)}):",
        *fill_in(value for value in passed if value not in inputs),
        f"    return mine{dot}{attribute}({', '.join(arguments)})",
    ]
