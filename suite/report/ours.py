"""Whether a file was written by attnsuite, known by how it begins: what was not is never replaced or removed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from attnsuite.model import UsageError
from attnsuite.model.regular import read_text

HEADER = re.compile(r"[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*)*")
"""The first line of a CSV file: the keys of its columns."""


def refuse_foreign(path: Path, is_ours: Callable[[str], bool]) -> None:
    """Raise UsageError for what is there and is not ours by the text that it holds, a folder and a dead link too."""
    text = text_of(path)
    if text is not None and not is_ours(text):
        raise UsageError(f"{path} was not written by attnsuite: move it away, or name another folder")


def text_of(path: Path) -> str | None:
    """What a file holds; None where there is nothing. UsageError where it cannot be read."""
    try:
        return read_text(path, "replace")
    except FileNotFoundError:
        if not path.is_symlink():
            return None
        raise UsageError(f"{path} is a link that leads nowhere: remove it") from None
    except NotADirectoryError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None


def same_kind(written: str, there: str) -> bool:
    """Whether two files of one name are of the same kind: pages of the same title, tables with columns in common."""
    if written.startswith("# "):
        return page_opening(there) == page_opening(written)
    ours, theirs = (set(text.split("\n", 1)[0].split(",")) for text in (written, there))
    return is_table(there) and len(ours & theirs) * 2 >= len(theirs)


def page_opening(text: str) -> tuple[str, str]:
    """The title of a page, without the machine's name in it, and who wrote it, if the page begins with that."""
    title, _, second, *_ = *text.split("\n", 3), "", ""
    return title.partition(" on ")[0], second.partition(",")[0] if second.startswith("Written by ") else ""


def is_page(text: str) -> bool:
    """Whether a text may be a page about one machine."""
    return re.match(r"# [\w ]+ on \S+\n", text) is not None


def is_table(text: str) -> bool:
    """Whether a text may be a table for programs."""
    return HEADER.fullmatch(text.split("\n", 1)[0]) is not None
