"""Pages → files. Files that attnsuite did not write are neither replaced nor removed."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from attnsuite.model import UsageError
from attnsuite.model.files import read_text, replace_file
from attnsuite.report import markdown
from attnsuite.report.page import Page

HEADER = re.compile(r"[a-z][a-z0-9_]*(,[a-z][a-z0-9_]*)*")
"""The first line of a CSV file: the keys of its columns."""


def texts(name: str, page: Page) -> dict[str, str]:
    """The texts of a page and its tables, by file name."""
    return {f"{name}.md": markdown.render(page), **{f"{key}.csv": table for key, table in page.data.items()}}


def write(folder: Path | str, files: dict[str, str]) -> list[Path]:
    """Write these texts into `folder`, atomically, and return their paths.

    Raises UsageError when the folder cannot be written, and before any write where it holds a foreign file.
    """
    paths = {Path(folder) / name: text for name, text in files.items()}
    for path, text in paths.items():
        refuse_foreign(path, partial(same_kind, text))
    for path, text in paths.items():
        replace_file(path, text)
    return list(paths)


def refuse_foreign(path: Path, is_ours: Callable[[str], bool]) -> None:
    """Raise UsageError where `path` holds a foreign text, a folder, or a link without a target."""
    text = text_of(path)
    if text is not None and not is_ours(text):
        raise UsageError(f"{path} was not written by attnsuite: move it away, or name another folder")


def text_of(path: Path) -> str | None:
    """The text of a file; None where there is no file. Raises UsageError where it cannot be read."""
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


def same_kind(new: str, existing: str) -> bool:
    """Whether an existing text is an older version of the new one: its title, columns or first characters are alike."""
    if new.startswith("# "):
        return page_opening(existing) == page_opening(new)
    if new.startswith("<"):
        return existing[:OPENING] == new[:OPENING]
    ours, theirs = (set(text.split("\n", 1)[0].split(",")) for text in (new, existing))
    return HEADER.fullmatch(existing.split("\n", 1)[0]) is not None and len(ours & theirs) * 2 >= len(theirs)


OPENING = 28
"""Characters that identify an HTML page or a drawing: `<!doctype html><!-- attnsuite`, `<svg …`."""


def page_opening(text: str) -> tuple[str, str]:
    """The title of a Markdown page without the machine, and "Written by …" where its first paragraph begins so."""
    title, _, second, *_ = *text.split("\n", 3), "", ""
    return title.partition(" on ")[0], second.partition(",")[0] if second.startswith("Written by ") else ""
