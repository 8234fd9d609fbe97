"""Requests as command lines: how a field is an option, how a word is read, how a request becomes words again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from inspect import Parameter, Signature
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from attnsuite.model import UsageError
from attnsuite.model.options import check_jobs

MAX_NAME_BYTES = 255
"""Bytes of one part of a path (NAME_MAX of Linux and macOS)."""
Reader = Callable[[str, Any], Any]
"""Makes a value of an option's name and a word. Raises UsageError for a word that the option does not take."""


def option(default: Any, words: str, help: str, read: Reader | None = None) -> Any:
    """A field that is an option: `--jobs N`, or a flag: `--quiet -q`."""
    names = [word for word in words.split() if word.startswith("-")]
    metavar = words.split()[-1] if words.split()[-1] not in names else None
    info = typer.Option(*names, metavar=metavar, help=help, parser=_parser(names[0], read))
    return field(default=default, metadata={"info": info, "word": names[0], "read": read})


def argument(default: Any, metavar: str, help: str, read: Reader | None = None) -> Any:
    """A field that is a positional argument; `...` is the default of one that must be there."""
    info = typer.Argument(metavar=metavar, help=help, show_default=False, parser=_parser(metavar, read))
    return field(default=MISSING if default is ... else default, metadata={"info": info, "word": metavar, "read": read})


def _parser(word: str, read: Reader | None) -> Callable[[Any], Any] | None:
    if read is None:
        return None

    def parse(text: Any) -> Any:  # a partial has no name, which typer shows
        return read(word, text)

    return parse


def signature(request: type) -> Signature:
    """The fields of a request as parameters that typer takes: what may be repeated is a list there."""
    hints = get_type_hints(request)
    return Signature([_parameter(each, hints[each.name]) for each in fields(request)])


def _parameter(of: Field[Any], hint: Any) -> Parameter:
    default = Parameter.empty if of.default is MISSING else of.default
    if get_origin(hint) is tuple:
        hint = list[get_args(hint)[0]]  # type: ignore[misc]
        default = list(default) if isinstance(default, tuple) else default
    return Parameter(of.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, of.metadata["info"]])


def arguments(request: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values given in Python, read as the command line reads words. UsageError for an unknown name or value."""
    known = {each.name: each for each in fields(request)}
    if unknown := sorted(values.keys() - known.keys()):
        raise UsageError(f"{request.__name__.lower()} takes no {unknown[0]!r}; it takes: {', '.join(known)}")
    return {name: _argument(known[name], value) for name, value in values.items()}


def _argument(of: Field[Any], value: Any) -> Any:
    word, read = of.metadata["word"], of.metadata["read"]
    if isinstance(of.default, tuple):
        return tuple(read(word, each) if read else each for each in map(_plain, several(value)))
    if isinstance(of.default, bool) != isinstance(value, bool) or isinstance(value, list | dict):
        expected = "True or False" if isinstance(of.default, bool) else "one word or number"
        raise UsageError(f"{word} expects {expected}, got {value!r:.80}")
    return read(word, _plain(value)) if read and value is not None else _plain(value)


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def several(value: Any) -> tuple[Any, ...]:
    """One value or several as a tuple; None is no value."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | os.PathLike) else (value,)


def words(request: Any, *names: str) -> list[str]:
    """The words of a command line that set these options; one with its default needs none."""
    chosen: list[str] = []
    for of in (each for each in fields(request) if each.name in names):
        value, word = getattr(request, of.name), of.metadata["word"]
        if value is True:
            chosen.append(word)
        elif value != of.default:
            chosen += [part for each in several(value) for part in (word, shown(each))]
    return chosen


def shown(value: Any) -> str:
    """A value as it is typed."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def whole(word: str, text: str | int) -> int:
    """The reader of an integer."""
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{word} expects an integer, got {text!r:.80}") from None


def positive(word: str, text: str | int) -> int:
    """The reader of an integer of at least 1."""
    if (number := whole(word, text)) < 1:
        raise UsageError(f"{word} expects an integer of at least 1, got {number}")
    return number


def jobs(word: str, text: str | int) -> int | None:
    """The reader of a number of processes; None for `auto`: one per core that this process may use."""
    if text == "auto":
        return None
    check_jobs(number := whole(word, text))
    return number


def seconds(word: str, text: str | float) -> float:
    """The reader of a duration above 0."""
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not isfinite(number) or number <= 0:
        raise UsageError(f"{word} expects a number of seconds above 0, got {str(text)!r:.80}")
    return number


def one_of(*values: str) -> Reader:
    """A reader of one of these words."""

    def read(word: str, text: str) -> str:
        if text not in values:
            raise UsageError(f"{word} expects one of {', '.join(values)}; got {text!r:.80}")
        return text

    return read


def checked(check: Callable[[Any], object], convert: Reader | None = None) -> Reader:
    """A reader of a value for which `check` raises no UsageError."""

    def read(word: str, text: Any) -> Any:
        value = convert(word, text) if convert else text
        check(value)
        return value

    return read


def file(word: str, text: str | Path) -> str:
    """The reader of the path of a file, or of a file or a folder."""
    if not str(text).strip():
        raise UsageError(f"{word} expects a path, got {str(text)!r}")
    if any(len(os.fsencode(part)) > MAX_NAME_BYTES for part in Path(text).parts):
        raise UsageError(f"{word}: {str(text)[:40]!r}… is longer than the name of a file may be")
    return str(text)


def path(word: str, text: str | Path) -> Path:
    """The same as a Path."""
    return Path(file(word, text))


def folder(word: str, text: str | Path) -> Path:
    """The reader of the path of a folder, which need not exist yet."""
    place = path(word, text)
    if blocking := next((each for each in (place, *place.parents) if each.exists() and not each.is_dir()), None):
        raise UsageError(f"{word} expects a folder, and {str(blocking)!r} is a file")
    return place
