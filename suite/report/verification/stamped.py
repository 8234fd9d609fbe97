"""Pages of which no rows are kept, held against their stamps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from attnsuite.model import Refusal, UsageError
from attnsuite.report import stamps
from attnsuite.report.verification.texts import text_of
from attnsuite.results.store.files import digest


def unlike_stamp(page: Path, tables: Sequence[str], command: str) -> Iterator[Refusal]:
    """Where a page, or a table beside it, is not what the page's stamp says. `command` writes them anew."""
    try:
        text = text_of(page)
        due = stamps.digests(text or "")
        if text is None:
            yield Refusal(str(page), "", f"there is no such file, and there are tables of it; `{command}` writes both")
            return
        if set(due) != {page.name, *tables}:
            said = "its stamp does not name it and its tables" if due else "it has no stamp, which is its last line"
            yield Refusal(
                str(page), "", f"{said}; `{command}` writes it anew, `attnsuite migrate` stamps an earlier one"
            )
            return
        for name, written in due.items():
            found = stamps.unstamped(text) if name == page.name else text_of(page.with_name(name))
            if found is None or digest(found) != written:
                why = "there is no such file" if found is None else "it is not what the stamp of its page says"
                yield Refusal(str(page.with_name(name)), "", f"{why}; `{command}` writes it anew")
    except UsageError as error:
        yield Refusal(str(page), "", str(error))
