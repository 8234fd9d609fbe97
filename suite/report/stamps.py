"""Stamps of pages of which no rows are kept: their last line has a digest of the page, and of each table beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from attnsuite.model.regular import read_bytes
from attnsuite.results.store.files import digest, one_line, replace_file

STAMP = re.compile(r"<!-- attnsuite((?: [\w.-]+ [0-9a-f]{16})+) -->\n\Z")
"""The last line of such a page: names of files, each with the digest of its text."""


def stamped(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts of a page's files by their names; the first, the page itself, gets a stamp of all."""
    page = next(iter(texts))
    said = " ".join(f"{name} {digest(text)}" for name, text in texts.items())
    return {**texts, page: f"{texts[page]}\n<!-- attnsuite {said} -->\n"}


def digests(page: str) -> dict[str, str]:
    """The digest of each file that the stamp of a page names; none where it has no stamp."""
    found = STAMP.search(page)
    words = found.group(1).split() if found else []
    return dict(zip(words[::2], words[1::2], strict=True))


def unstamped(page: str) -> str:
    """The page without its stamp."""
    return STAMP.sub("", page).removesuffix("\n") if STAMP.search(page) else page


def stamp_all(results: Path) -> Iterator[str]:
    """Give every page that an earlier version wrote without a stamp one of what stands there; a line says so.

    Raises UsageError for a page that cannot be read or written.
    """
    for page in (results / "audit.md", results / "cheats.md", *sorted(results.glob("*/stopwatch.md"))):
        tables = sorted(page.parent.glob(f"{page.stem}*.csv"))
        texts = {path.name: _text(path) for path in (page, *tables)} if page.exists() else {}
        if texts and not digests(texts[page.name]):
            replace_file(page, stamped(texts)[page.name])
            yield f"{page}: stamped as it stands, so that a change is noticed from now on"


def _text(path: Path) -> str:
    with one_line(path, "read"):
        return read_bytes(path).decode(errors="replace")
