"""Standard output and error: closed streams are opened, and every character can be written."""

from __future__ import annotations

import codecs
import io
import os
import sys
from pathlib import Path

ERRORS = "attnsuite-ascii"
"""The name of the codec error handler that substitutes characters which an encoding lacks."""
SUBSTITUTES = {"×": "x", "√": "sqrt ", "−": "-", "–": "-", "…": "...", "→": "->", "·": "*", "≤": "<=", "±": "+-"}
"""ASCII for the most frequent characters of messages. Others are escaped with a backslash."""


def prepare() -> None:
    """Open closed standard streams on /dev/null, and let the others write every character."""
    codecs.register_error(ERRORS, _substituted)
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, _null(descriptor))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def _null(descriptor: int) -> io.TextIOWrapper:
    """/dev/null, under the descriptor too unless an open file has it, because child processes write to the number."""
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        if null != descriptor:
            os.dup2(null, descriptor)
            os.close(null)
    return Path(os.devnull).open("w", encoding="utf-8")


def _substituted(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(SUBSTITUTES.get(character, character) for character in error.object[error.start : error.end])
    return text.encode("ascii", "backslashreplace").decode(), error.end
