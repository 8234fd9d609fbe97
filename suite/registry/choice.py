"""Which one a file without decorators means: what its author assigned, a function or a class."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry.from_source import listed, makes_models
from attnsuite.registry.reading import ModuleSource


def the_one(source: ModuleSource, file: Path, contract: str) -> str:
    """The name that a file without decorators means. UsageError if there are several candidates, or none.

    A file that binds the contract's name means that name, however it is bound: by `def`, an import, an assignment. Else
    it is the only public function or instance of a class of the file, else the only class. A file without any of these
    whose import may bind names that no statement shows means the contract's name, too.
    """
    if contract in source.bound:
        return contract
    names = _candidates(source, contract)
    if len(names) == 1:
        return names[0]
    if names:
        choice = f"has {listed(names)}: name one, as {file.name}:{names[0]}"
    elif source.is_open:
        return contract
    else:
        choice = f"has no public function{_instead(source, file)}"
    raise UsageError(f"{file.name} decorates no function with @implementation and {choice}")


def _candidates(source: ModuleSource, contract: str) -> Sequence[str]:
    """The public names that a file may mean. A model's contract asks for a factory, which no instance is."""
    functions = [each.name for each in source.functions if not each.is_class and not each.name.startswith("_")]
    classes = [each.name for each in source.functions if each.is_class and not each.name.startswith("_")]
    instances = [] if makes_models(contract) else [each.name for each in source.assigned if each.of]
    return list(dict.fromkeys([*functions, *instances])) or list(dict.fromkeys(classes))


def _instead(source: ModuleSource, file: Path) -> str:
    """What a file has that is no function of its own, and what to say for it to be asked."""
    if source.deferred:
        return f": {source.deferred[0]} is async; write a plain function"
    assigned = [each.name for each in source.assigned if not each.imported or each.name in contract_names()]
    return f": it has {listed(assigned)}; say {file.name}:{assigned[0]}" if assigned else ""
