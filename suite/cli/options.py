"""Requests as command lines: fields as options, words as values, and a request as words again."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from inspect import Parameter, Signature
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from attnsuite.model import UsageError
from attnsuite.model.limits import check_jobs

Reader = Callable[[str, Any], Any]
"""Converts a word into the value of an option, whose name comes first. Raises UsageError for a wrong word."""


def option(default: Any, words: str, help: str, read: Reader | None = None) -> Any:
    """A field that is an option: `--jobs N`, or a flag: `--quiet -q`."""
    names = [word for word in words.split() if word.startswith("-")]
    metavar = words.split()[-1] if words.split()[-1] not in names else None
    info = typer.Option(*names, metavar=metavar, help=help, parser=_parser(names[0], read))
    return field(default=default, metadata={"info": info, "word": names[0], "read": read})


def argument(default: Any, metavar: str, help: str, read: Reader | None = None) -> Any:
    """A field that is a positional argument; one with the default `...` is required."""
    info = typer.Argument(metavar=metavar, help=help, show_default=False, parser=_parser(metavar, read))
    return field(default=MISSING if default is ... else default, metadata={"info": info, "word": metavar, "read": read})


def _parser(word: str, read: Reader | None) -> Callable[[Any], Any] | None:
    if read is None:
        return None

    def parse(text: Any) -> Any:  # a partial has no name, which typer shows
        return read(word, text)

    return parse


def signature(request: type) -> Signature:
    """The fields of a request as parameters for typer; an option that may be repeated is a list there."""
    hints = get_type_hints(request)
    return Signature([_parameter(entry, hints[entry.name]) for entry in fields(request)])


def _parameter(entry: Field[Any], hint: Any) -> Parameter:
    default = Parameter.empty if entry.default is MISSING else entry.default
    if get_origin(hint) is tuple:
        hint = list[get_args(hint)[0]]  # type: ignore[misc]
        default = list(default) if isinstance(default, tuple) else default
    annotation = Annotated[hint, entry.metadata["info"]]
    return Parameter(entry.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def arguments(request: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of arguments in Python, read as the command line reads words. UsageError for an unknown name or value."""
    known = {entry.name: entry for entry in fields(request)}
    if unknown := sorted(values.keys() - known.keys()):
        raise UsageError(f"{request.__name__.lower()} takes no {unknown[0]!r}; valid names: {', '.join(known)}")
    return {name: _argument(known[name], value) for name, value in values.items()}


def _argument(entry: Field[Any], value: Any) -> Any:
    word, read = entry.metadata["word"], entry.metadata["read"]
    if isinstance(entry.default, tuple):
        return tuple(read(word, item) if read else item for item in map(_plain, several(value)))
    if isinstance(entry.default, bool) != isinstance(value, bool) or isinstance(value, list | dict):
        expected = "True or False" if isinstance(entry.default, bool) else "one word or number"
        raise UsageError(f"{word} expects {expected}, got {value!r:.80}")
    return read(word, _plain(value)) if read and value is not None else _plain(value)


def _plain(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def several(value: Any) -> tuple[Any, ...]:
    """One value or several values as a tuple; None gives an empty one."""
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str | os.PathLike) else (value,)


def words(request: Any, *names: str) -> list[str]:
    """The words of a command line that set these options, without those that have their default."""
    chosen: list[str] = []
    for entry in (entry for entry in fields(request) if entry.name in names):
        value, word = getattr(request, entry.name), entry.metadata["word"]
        if value is True:
            chosen.append(word)
        elif value != entry.default:
            typed = (f"{item:g}" if isinstance(item, float) else str(item) for item in several(value))
            chosen += [part for text in typed for part in (word, text)]
    return chosen


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
    return str(text)


def path(word: str, text: str | Path) -> Path:
    """The same as a Path."""
    return Path(file(word, text))


def folder(word: str, text: str | Path) -> Path:
    """The reader of the path of a folder, which need not exist yet."""
    place = path(word, text)
    if blocking := next(
        (parent for parent in (place, *place.parents) if parent.exists() and not parent.is_dir()), None
    ):
        raise UsageError(f"{word} expects a folder, but {str(blocking)!r} is a file")
    return place
