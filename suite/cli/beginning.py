"""`attnsuite new`: a file to begin with, which replaces none that is there."""

from __future__ import annotations

import keyword
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from attnsuite.cli.templates import written
from attnsuite.model import UsageError
from attnsuite.registry import locate
from attnsuite.registry.signatures import SIGNATURES_OF


def begin(name: str, contract: str, signature: str) -> None:
    """Write NAME.py and say how it is checked. Raises UsageError for a bad name, and where the file exists."""
    file = Path(name).with_suffix(".py") if name.endswith(".py") else Path(f"{name}.py")
    stem = file.name.removesuffix(".py")
    if not stem.isidentifier() or keyword.iskeyword(stem):
        raise UsageError(f"a name that Python can import is due, not {stem!r}: letters, digits and underscores")
    folder = file.absolute().parent
    _refuse_hiding(stem, folder)
    text = written(file.stem, contract, signature, str(file), folder.name)
    try:
        with file.open("x", encoding="utf-8") as new:
            new.write(text)
    except FileExistsError:
        raise UsageError(f"{str(file)!r} exists, and is left as it is: choose another name") from None
    except OSError as error:
        raise UsageError(f"{str(file)!r} cannot be written: {error.strerror}") from None
    yours = "" if contract == SIGNATURES_OF else " The body of its function is left to you."
    print(f"{file} is written.{yours} Check it: attnsuite check {file}")


def _refuse_hiding(name: str, folder: Path) -> None:
    """Raise UsageError for the name of a module, which a file in this folder would hide from what is run there."""
    spec = None if name in sys.stdlib_module_names else locate(name)
    if name in sys.stdlib_module_names or (spec is not None and folder not in _homes(spec)):
        raise UsageError(f"{name!r} is the name of a module, which {name}.py would hide: choose another name")


def _homes(spec: ModuleSpec) -> set[Path]:
    """The folders that a module or a package lies in."""
    places = list(spec.submodule_search_locations or filter(None, (spec.origin,)))
    return {Path(place).absolute().parent for place in places}
