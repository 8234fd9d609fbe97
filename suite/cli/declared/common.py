"""What subcommands have in common: how they are declared, the readers of words, and the options of several of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Annotated, Protocol

import typer

from attnsuite.model import Shard, UsageError
from attnsuite.model.limits import COMPILE_LIMIT, IMPORT_LIMIT

LONGEST_NAME = 255
"""Bytes of a part of a path (NAME_MAX of Linux and macOS)."""


class Command(Protocol):
    """A frozen dataclass: each field is an option or an argument with its default, the docstring is the help."""

    def run(self) -> int | None:
        """Do what was asked and return the exit status; None is 0. UsageError for what cannot be carried out."""


def whole(option: str) -> Callable[[str], int]:
    """A reader of the whole number that an option takes. It raises UsageError for anything else."""

    def read(text: str | int) -> int:
        try:
            return int(text)
        except ValueError:
            raise UsageError(f"{option}: a whole number is due, not {text!r}") from None

    return read


def seconds(option: str) -> Callable[[str], float]:
    """A reader of the number of seconds that an option takes. It raises UsageError for anything else."""

    def read(text: str | float) -> float:
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not isfinite(number):
            raise UsageError(f"{option}: a number of seconds is due, not {text!r}")
        return number

    return read


def check_shapes(shapes: Sequence[str]) -> None:
    """Raise UsageError for a shape that cannot be read, before torch is imported."""
    if shapes:
        from attnsuite.contracts.attention.shapes import read  # no other contract has shapes

        for shape in shapes:
            read(shape)


def jobs(text: str) -> int | None:
    """The reader of --jobs: a number of processes; None for `auto`, as many as this process may use cores."""
    from attnsuite.model.options import check_jobs

    if text == "auto":
        return None
    number = whole("--jobs")(text)
    check_jobs(number)
    return number


def place(option: str, what: str) -> Callable[[str], str]:
    """A reader of the path of a file or a folder that an option takes. It raises UsageError for an empty one."""

    def read(text: str | Path) -> str:
        if not str(text).strip():
            raise UsageError(f"{option}: the name of a {what} is due, not {str(text)!r}")
        if any(len(os.fsencode(part)) > LONGEST_NAME for part in Path(text).parts):
            raise UsageError(f"{option}: {str(text)[:40]!r}… is longer than the name of a {what} may be")
        return str(text)

    return read


def path(option: str, what: str) -> Callable[[str], Path]:
    """The same as a Path, which makes of an empty name the folder where one is. UsageError for a file as a folder."""
    named = place(option, what)

    def read(text: str | Path) -> Path:
        found = Path(named(str(text)))
        files = (each for each in (found, *found.parents) if each.exists() and not each.is_dir())
        if what == "folder" and (file := next(files, None)):
            raise UsageError(f"{option}: a folder is due, and {str(file)!r} is a file")
        return found

    return read


def signature(text: str) -> str:
    """The reader of the name of a signature. It raises UsageError for one that does not exist."""
    from attnsuite.registry.signatures import signature as signature_named

    return signature_named(text).name


Targets = Annotated[
    list[str],
    typer.Argument(
        metavar="[TARGET]...",
        help="attention/chunked, chunked, file.py, file.py:function, or package.module:function; TARGET+PLUG plugs an "
        "attention, named in any of these ways, into another: transformer/eager+chunked; all by default",
        show_default=False,
    ),
]
ContractName = Annotated[
    str | None,
    typer.Option(
        "--contract", metavar="C", help="the contract; of a file it is attention, unless its folder names another"
    ),
]
SignatureName = Annotated[
    str | None,
    typer.Option(
        "--signature",
        metavar="S",
        parser=signature,
        help="the library whose signature a file or module has: sdpa, flash_attn, xformers, jax, flashinfer, triton, "
        "mlx or numpy; by default told by its parameters",
    ),
]
Shapes = Annotated[
    list[str],
    typer.Option(
        "--shape",
        metavar="SHAPE",
        help="a workload of one's own: b=4,h=32,g=8,l=2048,e=128,causal; further s, v, window=LEFT:RIGHT, "
        "mask=bool|float, scale=X, dropout=P; may be repeated",
    ),
]
Dtypes = Annotated[
    list[str], typer.Option("--dtype", metavar="D", help="float64, float32, float16 or bfloat16; may be repeated")
]
Device = Annotated[str, typer.Option("--device", metavar="D", help="cpu, cuda or cuda:N")]
Isolate = Annotated[
    bool, typer.Option("--isolate", help="ask every implementation in a process of its own, those that ship too")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="say what would run and about how long it takes; start and write nothing")
]
TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit",
        metavar="SECONDS",
        parser=seconds("--time-limit"),
        help="the most that a test in a process of its own may take; an import may take "
        f"{IMPORT_LIMIT:g} at least, and where a compiler is loaded an import and the first call of each shape "
        f"{COMPILE_LIMIT:g}",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        metavar="N",
        parser=jobs,
        help="processes that test at once; by default auto, one per core, and 1 where there are few tests",
        show_default=False,
    ),
]
Full = Annotated[
    bool, typer.Option("--full", help="test everything, also what compiles for minutes, not only a sample of it")
]
InShard = Annotated[
    Shard | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        parser=Shard.read,
        help="only the part I of N, as 2/8; stored in a folder of its own under --results",
    ),
]
Except = Annotated[list[str], typer.Option("--except", metavar="TARGET", help="leave these out; may be repeated")]
Folder = Annotated[
    Path,
    typer.Option("--results", metavar="DIR", parser=path("--results", "folder"), help="the folder of results"),
]
