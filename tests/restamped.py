"""Pages of which no rows are kept, altered by somebody who makes their stamps anew."""

from pathlib import Path

from attnsuite.report import stamps


def altered(file: Path, before: str, now: str, page: Path | None = None) -> None:
    """Replace words in a file, and give its page (itself, if none is named) a stamp that fits."""
    text = file.read_text()
    assert before in text, f"{file.name} has no {before!r}"
    file.write_text(text.replace(before, now, 1))
    page = page or file
    named = stamps.digests(page.read_text())
    texts = {page.name: stamps.unstamped(page.read_text())}
    texts |= {name: page.with_name(name).read_text() for name in named if name != page.name}
    page.write_text(stamps.stamped(texts)[page.name])
