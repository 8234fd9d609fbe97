"""A sweep file: what is asked, in how many shards, with which versions of libraries, and where results go."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnsuite.model import Shard, UsageError
from attnsuite.model.regular import read_text

MOST_SHARDS = 10_000
"""More would wait for the scheduler of a cluster longer than they compute."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,60}")
"""What an environment may be called: its name is a folder, and a column of a table."""
WORKING = ".sweep"
"""What the folder is called beside the sweep file in which shards, environments and logs are kept."""


@dataclass(frozen=True)
class Asked:
    """One request of a sweep: the subcommand, and the words of its options."""

    command: str
    words: tuple[str, ...]
    name: str
    """`check`, or `check-2` where there are several."""


@dataclass(frozen=True)
class Sweep:
    """What a sweep file says."""

    file: Path
    asked: tuple[Asked, ...]
    shards: int = 1
    results: Path = Path("results")
    folder: Path = Path()
    """Where shards, environments and logs are kept, so that a sweep that was stopped goes on."""
    alone: bool = True
    """Whether nothing else of the sweep runs on this machine while a shard times anything."""
    slurm: Mapping[str, Any] = field(default_factory=dict)
    """Options of submitit's executor for Slurm."""
    versions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the name of an environment, what pip is to install into it."""

    @property
    def parts(self) -> list[Shard]:
        return [Shard(index, self.shards) for index in range(1, self.shards + 1)]


class Words:
    """What turns a table of keys into the words of a subcommand."""

    def __init__(self, options: Mapping[str, str], flags: Iterable[str], positional: str) -> None:
        self.options = options
        self.flags = frozenset(flags)
        self.positional = positional

    @property
    def keys(self) -> list[str]:
        return [self.positional, *self.options]

    def of(self, where: str, table: Mapping[str, Any]) -> tuple[str, ...]:
        """The words. UsageError for a key that there is none of, and for a value that is none of an option's."""
        refuse_unknown(where, table, self.keys)
        words = [str(value) for value in _values(where, self.positional, table.get(self.positional, []))]
        for key, value in table.items():
            if key in self.flags:
                words += [self.options[key]] if _flag(where, key, value) else []
            elif key != self.positional:
                words += [word for each in _values(where, key, value) for word in (self.options[key], str(each))]
        return tuple(words)


def read(path: Path, commands: Mapping[str, Words]) -> Sweep:
    """What a sweep file says, relative to the folder in which the command is started.

    Raises UsageError, in one line, for a file that cannot be read, keys that there are none of (which, and what there
    is) and values of the wrong type.
    """
    table = _parsed(path)
    own = ("shards", "results", "folder", "alone", "slurm", "versions")
    refuse_unknown(str(path), table, [*own, *commands])
    asked = tuple(_asked(path, table, commands))
    if not asked:
        raise UsageError(f"{path} asks nothing: a table {' or '.join(f'[{name}]' for name in commands)} is due")
    where = str(path)
    return Sweep(
        path,
        asked,
        _shards(where, table.get("shards", 1)),
        Path(_text(where, "results", table.get("results", "results"))),
        Path(_text(where, "folder", table.get("folder", str(path.with_suffix(WORKING))))),
        _flag(where, "alone", table.get("alone", True)),
        _table(where, "slurm", table.get("slurm", {})),
        _versions(where, _table(where, "versions", table.get("versions", {}))),
    )


def refuse_unknown(where: str, table: Iterable[str], known: Sequence[str]) -> None:
    """UsageError for keys that there are none of: which, and what there is."""
    if unknown := [key for key in table if key not in known]:
        raise UsageError(f"{where}: unknown key {', '.join(map(repr, unknown))}; there are: {', '.join(known)}")


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # what is no TOML, or no UTF-8
        raise UsageError(f"{path} is no TOML: {error}") from None


def _asked(path: Path, table: Mapping[str, Any], commands: Mapping[str, Words]) -> Iterable[Asked]:
    for command, words in commands.items():
        given = table.get(command, [])
        several = given if isinstance(given, list) else [given]
        for number, each in enumerate(several, 1):
            name = command if number == 1 else f"{command}-{number}"
            where = f"{path}: [{name}]"
            yield Asked(command, words.of(where, _table(where, command, each)), name)


def _values(where: str, key: str, value: object) -> list[object]:
    """The values of an option: a list, or one."""
    values = value if isinstance(value, list) else [value]
    for each in values:
        if isinstance(each, bool) or not isinstance(each, str | int | float):
            raise UsageError(f"{where}: {key} takes words and numbers, not {each!r:.80}")
    return values


def _shards(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_SHARDS:
        raise UsageError(f"{where}: shards is a whole number from 1 to {MOST_SHARDS}, not {value!r:.80}")
    return value


def _flag(where: str, key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{where}: {key} is true or false, not {value!r:.80}")
    return value


def _text(where: str, key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UsageError(f"{where}: {key} is the name of a folder, not {value!r:.80}")
    return value


def _table(where: str, key: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: {key} is a table, [{key}], not {value!r:.80}")
    return value


def _versions(where: str, table: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    for name in table:
        if not NAME.fullmatch(name):
            raise UsageError(f"{where}: [versions] has {name!r:.80}; names are of letters, digits and . _ + -")
    if len({name.lower() for name in table}) < len(table):
        raise UsageError(f"{where}: [versions] has names that differ in upper case alone; their folders may not")
    return {name: tuple(map(str, _values(f"{where}: [versions]", name, value))) for name, value in table.items()}
