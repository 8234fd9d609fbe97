"""`attnsuite new`: a file to begin with, which replaces none that is there."""

from __future__ import annotations

import keyword
from pathlib import Path

from suite.beginning import written
from suite.records import UsageError


def begin(name: str, contract: str, signature: str) -> None:
    """Write NAME.py and say how it is checked. Raises UsageError for a bad name, and where the file exists."""
    file = Path(name).with_suffix(".py") if name.endswith(".py") else Path(f"{name}.py")
    stem = file.name.removesuffix(".py")
    if not stem.isidentifier() or keyword.iskeyword(stem):
        raise UsageError(f"a name that Python can import is due, not {stem!r}: letters, digits and underscores")
    command = _command(file, contract)
    text = written(file.stem, contract, signature, command)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise UsageError(f"{str(file)!r} exists, and is left as it is: choose another name") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}") from None
    print(f"{file} is written. Check it: attnsuite check {command}")


def _command(file: Path, contract: str) -> str:
    """The words that check it: its folder may not say what it computes."""
    return f"{file}" if contract == "attention" else f"{file} --contract {contract}"
