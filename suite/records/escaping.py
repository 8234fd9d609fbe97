"""How texts of others are shown: what a terminal would obey, and a reader cannot see, stands there as an escape."""

from __future__ import annotations

from unicodedata import category

KEPT = frozenset("\n\t")
"""What may stand in a text of several lines."""


def escaped(text: str) -> str:
    r"""The text with `\x1b` in place of a control character, and the like for marks of direction and lone surrogates.

    Backslashes stay as they are, so that a text which is escaped already does not change.
    """
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    if character.isprintable() or character in KEPT or category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()
