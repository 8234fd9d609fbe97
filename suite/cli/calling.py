"""`check` as Python calls it: with the options of the command line, and outcomes as data instead of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnsuite import registry
from attnsuite.cli.checking import chosen, refuse_broken
from attnsuite.cli.declared.check import Check
from attnsuite.cli.declared.common import jobs
from attnsuite.cli.outcomes import nobody, outcomes_of, refuse_places
from attnsuite.contracts import contract as contract_named
from attnsuite.model import Outcome, Shard, UsageError

if TYPE_CHECKING:
    import torch

Target = str | PathLike[str] | Callable[..., Any]
POSITIONAL = ("targets", "contract", "dtypes", "device", "cases")
"""The options that `check` names itself."""


def check(
    target: Target | Iterable[str | PathLike[str]],
    contract: str | None = None,
    dtypes: str | torch.dtype | Iterable[str | torch.dtype] | None = None,
    device: str | torch.device = "cpu",
    *,
    cases: str | Iterable[str] = (),
    **options: Any,
) -> list[Outcome]:
    """Check a target against its contract and return an Outcome for each case and dtype; nothing is printed.

    `target` is a function, a class or a module, which is called in this process (bad input in one of its own, if it can
    be imported there), or what the command line takes, one or several: `"file.py"`, `"package.module:function"`,
    `"attention/chunked"`. `contract` is attention by default, or of a file what its folder or its function is named
    after. `dtypes`, one or several ("float32" or torch.float32), and `cases` (names, families or patterns) default to
    all.

    The other options are those of `attnsuite check`, by the same names: `isolate`, `time_limit`, `jobs`, `profile`,
    `seed`, `shard` ("2/8"), `except_`, `fail_fast`, `last_failed`, `strict`, and the files `json`, `junit` and
    `results`.

    Raises UsageError for an unknown target, contract, dtype, device, case or option.
    """
    chosen_options = Check(
        contract=contract,
        dtypes=[str(dtype).removeprefix("torch.") for dtype in _several(dtypes)],
        device=str(device),
        cases=_several(cases),
        **_options(options),
    )
    refuse_places(chosen_options)
    if callable(target):
        return _function(target, chosen_options)
    declarations = chosen(_targets(target), chosen_options.except_, contract, chosen_options.signature or "")
    refuse_broken([str(target)], declarations)
    return outcomes_of(chosen_options, declarations, None, nobody)


def _function(function: Callable[..., Any], options: Check) -> list[Outcome]:
    contract = contract_named(options.contract or "attention").name
    with registry.modes_kept(function):
        loaded = registry.from_function(function, contract, signature=options.signature or "")
        return outcomes_of(options, [loaded.declaration], None, nobody, {loaded.declaration.full_name: loaded})


def _targets(target: object) -> list[str]:
    given = _several(target)
    if not given or not all(isinstance(each, str | PathLike) for each in given):
        takes = "a function, a class or a module, or names and files as the command line does"
        raise UsageError(f"check takes {takes}, not {type(target).__name__}")
    return [fspath(each) for each in given]


def _several(given: Any) -> list[Any]:
    """One or several as a list; None is none."""
    if given is None:
        return []
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str | PathLike) else [given]


def _options(given: dict[str, Any]) -> dict[str, Any]:
    """The options as the command line would have read them. UsageError for those that it does not have."""
    known = {each.name: each for each in fields(Check) if each.name not in POSITIONAL}
    if unknown := given.keys() - known.keys():
        raise UsageError(f"check takes no {sorted(unknown)[0]!r}; it takes: {', '.join(known)}")
    read = {name: fspath(value) if isinstance(value, PathLike) else value for name, value in given.items()}
    if read.get("results") is not None:
        read["results"] = Path(read["results"])
    if read.get("shard") is not None:
        read["shard"] = Shard.read(read["shard"])
    if isinstance(each := read.setdefault("jobs", 1), str):  # more only where the caller wants them: they are forked
        read["jobs"] = jobs(each)
    return {name: _several(value) if name == "except_" else value for name, value in read.items()}
