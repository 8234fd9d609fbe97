"""Escapes texts of submissions and users: control and invisible characters are printed as escape sequences."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from unicodedata import category

PRINTED = frozenset("\n\t")
"""Control characters that stay in a text of several lines."""


def escaped(text: str) -> str:
    r"""The text with `\x1b` in place of a control character, and the like for marks of direction and lone surrogates.

    Backslashes stay, so that escaping twice changes nothing.
    """
    return text if text.isprintable() else "".join(map(_escaped_character, text))


def _escaped_character(character: str) -> str:
    if character.isprintable() or character in PRINTED or category(character) == "Zs":
        return character
    return character.encode("unicode_escape").decode()


def command_line(words: Iterable[str]) -> str:
    r"""The words as bash and zsh read them; `$'k\xff.py'` for the name of a file that is not UTF-8."""
    return " ".join(shlex.quote(word) if word.isprintable() else f"$'{''.join(map(_quoted, word))}'" for word in words)


def _quoted(character: str) -> str:
    r"""The character inside `$'…'`. A byte that is not UTF-8 is a lone surrogate in Python, U+DC80 to U+DCFF."""
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character if character.isprintable() and character not in "'\\" else f"\\U{code:08x}"
