"""`attnsuite check --github`: annotations at the files that fail, and the summary of the job."""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from attnsuite import registry
from attnsuite.model import Explanation, Outcome, UsageError
from attnsuite.registry import Declaration
from attnsuite.report import github
from attnsuite.report.markdown import render as as_markdown

SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable that names the file of the summary."""
ROOT = "GITHUB_WORKSPACE"
"""The variable that names the folder of the repository, to which paths in annotations are relative."""


@contextmanager
def no_commands(lines: TextIO, on: bool) -> Iterator[None]:
    """In the block no printed line is a workflow command: it may quote a submission."""
    token = secrets.token_hex(16)
    if on:
        print(f"::stop-commands::{token}", file=lines, flush=True)
    try:
        yield
    finally:
        if on:
            print(f"::{token}::", file=lines, flush=True)


def announce(
    outcomes: Sequence[Outcome],
    declarations: Sequence[Declaration],
    explanations: Mapping[str, Explanation],
    again: Mapping[str, Sequence[str]],
    lines: TextIO,
) -> None:
    """Print the annotations, and append to the summary of the job if there is one. UsageError if it cannot be."""
    places = {declaration.full_name: _place(declaration) for declaration in declarations}
    for line in github.errors(outcomes, places, again):
        print(line, file=lines, flush=True)
    if file := os.environ.get(SUMMARY):
        try:
            with Path(file).open("a", encoding="utf-8") as summary:
                summary.write(as_markdown(github.summary(outcomes, explanations, again)) + "\n")
        except OSError as error:
            raise UsageError(f"the summary of the job, {file}, cannot be written: {error.strerror}") from None


def _place(declaration: Declaration) -> github.Place:
    """The place in the repository; none for an implementation outside of it."""
    if not declaration.file:
        return github.Place()
    file, root = Path(declaration.file).resolve(), Path(os.environ.get(ROOT) or Path.cwd()).resolve()
    if not file.is_relative_to(root):
        return github.Place()
    line = registry.line_of(file, declaration.function or declaration.contract)
    return github.Place(file.relative_to(root).as_posix(), line)
