"""Runs that only git still has → history: results as they were at commits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from attnsuite.model import UsageError
from attnsuite.results.store import contents, former, history
from attnsuite.results.store.at_commit import commits, results_at
from attnsuite.results.store.migration import migrate


class Added(NamedTuple):
    """What came of a commit: the files that are new or hold more now, or why it was left out."""

    commit: str
    paths: list[Path]
    why: str = ""


def add_commits(results: Path, folder: Path, words: str) -> Iterator[Added]:
    """Keep the runs of a folder at a commit, or at each of a range `A..B` that changed it.

    In a range, commits whose results cannot be read are left out. Raises UsageError for a single one, and where there
    is no such commit.
    """
    named = commits(folder, words)
    for commit in named:
        try:
            yield Added(commit, _added(results, folder, commit))
        except UsageError as error:
            if named == [words]:
                raise
            yield Added(commit, [], str(error))


def _added(results: Path, folder: Path, commit: str) -> list[Path]:
    with results_at(folder, commit) as there:
        try:
            if any(former.is_former(file.parent) for sign in contents.SIGNS for file in there.glob(f"*/{sign}")):
                list(migrate(there))  # it is a copy
            return list(history.add(results, there))
        except UsageError as error:
            raise UsageError(str(error).replace(str(there), f"{folder}@{commit:.12}")) from None
