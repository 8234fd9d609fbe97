"""The implementations that the targets of a command line name."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path

from attnsuite.contracts import file_of
from attnsuite.contracts import names as contract_names
from attnsuite.model import UsageError
from attnsuite.registry.backends import may_take_backend, parts, with_backend
from attnsuite.registry.calls import with_signature
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.discovery import DEFAULT_CONTRACT, discover
from attnsuite.registry.files import locate, on_path
from attnsuite.registry.roles import CONTRACTS, WEIGHTED, listed, meaning_of
from attnsuite.registry.signatures import signature as signature_named
from attnsuite.registry.signatures.signature import BY_USER
from attnsuite.registry.source import LAYERS, MAX_LISTED, FileSource, decorated, of_function, read

CALLED = re.compile(r"(.+:[\w.]+)(\(.*\))", re.DOTALL)
"""A target with the arguments of a class: `file.py:Attention(128, 4)`."""


def find(targets: Iterable[str] = (), contract: str | None = None, *, signature: str = "") -> list[Declaration]:
    """The implementations that the targets name, each once, in the order named. No targets: all that are registered.

    A target is one of

    - `attention/torch_sdpa.flash`, a registered name; the contract may be left out if only one has the name;
    - `torch_sdpa`, a file with all its variants;
    - `attention/*`, a pattern;
    - `path/to/file.py`: its decorated functions; without any, the function named like the contract, else the only
      public one; an instance of one of its classes comes before the class;
    - `path/to/file.py:function` and `package.module:function`: no decorator needed;
    - `path/to/file.py:Class(128, 4)`: an instance that is made with these arguments;
    - `TARGET+BACKEND`: a target with an attention, named in any of these ways, as its backend:
      `transformer/eager+chunked`.

    The contract of a file or module is `contract` if given, else the name of its folder or of its function if that is a
    contract, else the one that its parameters show, else attention; that of a backend is attention. The implementation
    is named after the file, or after the function that the user named, unless that has the name of the contract.
    `signature` is that of files and modules, where their parameters do not identify it. Raises `UsageError`, in one
    line, if a target is not found. Locating a module may import the packages around it.
    """
    if contract is not None:
        file_of(contract)  # raises for an unknown one
    search = _Search(tuple(discover()), contract, signature=signature)
    targets = list(targets)
    if signature:
        signature_named(signature)  # an unknown name is the first complaint
    if signature and not targets:
        raise UsageError("--signature needs a target: name the file or module that has this signature")
    if not targets:
        return search.registered
    chosen: dict[str, Declaration] = {}
    for target in targets:
        for declaration in _readable(search, target):
            twin = chosen.setdefault(declaration.full_name, declaration)
            part = declaration.backend or declaration
            if signature and part.signature_by[:1] != (BY_USER,) and not part.broken:
                says = f"--signature is for files and modules; {part.full_name} is registered and declares its own"
                raise UsageError(says)
            if not _same(twin, declaration):
                homes = " and ".join("+".join(map(_place, parts(namesake))) for namesake in (twin, declaration))
                raise UsageError(f"two targets are called {declaration.full_name}: {homes}; test them one by one")
    return list(chosen.values())


def without(
    declarations: Iterable[Declaration], excluded: Iterable[str], contract: str | None = None
) -> list[Declaration]:
    """The declarations except those that the excluded targets name, alone or as the host or backend of a combination.

    UsageError for an excluded target that is not found, in this contract or in any.
    """
    names: set[str] = set()
    for target in excluded:
        try:
            names.update(_names(find([target], contract)))
        except UsageError:
            if contract is None:
                raise
            names.update(_names(find([target])))  # a backend is of another contract
    return [declaration for declaration in declarations if names.isdisjoint(_names([declaration, *parts(declaration)]))]


def _readable(search: _Search, target: str) -> list[Declaration]:
    """What a target names. UsageError also for a text that no path can be, such as one with a NUL."""
    try:
        target.encode()
        return search.named(target)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"target {target!r:.80} is no name and no path: {why}") from None


def command_words(declarations: Iterable[Declaration]) -> dict[str, tuple[str, ...]]:
    """The words of a command line that name each of these, by full name.

    They are the registered name; without one, file or module and function, and `--contract` unless the folder names it.
    """
    registered = {declaration.full_name: declaration for declaration in discover()}
    return {declaration.full_name: _words(declaration, registered) for declaration in declarations}


def _words(declaration: Declaration, registered: Mapping[str, Declaration]) -> tuple[str, ...]:
    def is_registered(part: Declaration) -> bool:
        return part.full_name in registered and _same(part, registered[part.full_name])

    def word(part: Declaration) -> str:
        if not is_registered(part):
            return _place(part)
        return part.full_name if part is host else part.name  # a backend is an attention

    host, *_ = own = [declaration] if is_registered(declaration) else parts(declaration)
    target = "+".join(map(word, own))
    source = _source(host)
    if is_registered(host) or host.contract == (source.contract_of(host.function) or _implied_contract(host, source)):
        return (target,)
    return target, "--contract", host.contract


def _place(declaration: Declaration) -> str:
    """The target that names it by its place: `path/to/file.py:function`, or the file if that alone names it."""
    function = declaration.function
    if declaration.own and not declaration.named and (declaration.broken or not _is_decorated(declaration)):
        function = ""
    return ":".join(filter(None, (declaration.module or declaration.file, function))) + declaration.arguments


def _same(first: Declaration, second: Declaration) -> bool:
    """Whether two declarations are of the same functions."""
    one, other = ([(part.file, part.module, part.function) for part in parts(whole)] for whole in (first, second))
    return one == other


def _is_decorated(declaration: Declaration) -> bool:
    return declaration.function in {function.name for function in _source(declaration).decorated}


def _source(declaration: Declaration) -> FileSource:
    return read(Path(declaration.file)) if declaration.file else FileSource()


def _implied_contract(declaration: Declaration, source: FileSource) -> str:
    """The contract that its folder is named after, else that its parameters show, else its name; or attention."""
    path = declaration.module.split(".") if declaration.module else Path(declaration.file).parts
    shown = dict(source.contracts).get(declaration.function)
    names = (*path[-2:-1], shown or declaration.function.rpartition(".")[2])
    weighted = _weighted_class(declaration)
    default = meaning_of(weighted, CONTRACTS, WEIGHTED) if weighted else DEFAULT_CONTRACT
    return next((name for name in names if name in contract_names()), default)


def _weighted_class(declaration: Declaration) -> str:
    """The class whose source makes layers with weights, or empty; that of an instance if it is one."""
    source = _source(declaration)
    name = declaration.function or source.top
    return dict(source.weighted).get(name, name if name in LAYERS else "")


@dataclass(frozen=True)
class _Search:
    """Finds the declarations of a target: a name registered among `everything`, a file or a module; of `contract`."""

    everything: tuple[Declaration, ...]
    contract: str | None
    word: str = "target"
    signature: str = ""

    @cached_property
    def registered(self) -> list[Declaration]:
        return [declaration for declaration in self.everything if self.contract in (None, declaration.contract)]

    def named(self, target: str) -> list[Declaration]:
        """The declarations that a target names. UsageError if it names nothing."""
        if called := CALLED.fullmatch(target):
            return [replace(declaration, arguments=called[2]) for declaration in self.named(called[1])]
        if declarations := _clear(target, _matching(target, self.registered)):
            return declarations
        place, colon, function = target.rpartition(":")
        is_path = Path(target).is_file() or ("+" not in function and Path(place).is_file())
        if "+" in target and not is_path:
            return self._combined(target)
        if colon and not (place and function):
            raise UsageError(f"{self.word} {target!r}: expected FILE.py:FUNCTION or MODULE:FUNCTION")
        if colon and not place.endswith(".py") and os.sep not in place and not Path(place).is_file():
            return [self._of_module(place, function)]
        if not colon:
            place, function = target, ""
        file = Path(place)
        if not target or not (colon or file.suffix == ".py" or file.exists()):
            raise UsageError(self._unknown(target))
        return self._of_path(file, function)

    def _combined(self, target: str) -> list[Declaration]:
        """Each host before the + with each attention after it as its backend. A path of a host may contain a + too."""
        places = [place for place, sign in enumerate(target) if sign == "+"]
        hosts = [target[:place] for place in places]
        host = next((path for path in hosts if Path(path.rpartition(":")[0] or path).is_file()), hosts[0])
        backend = target[len(host) + 1 :]
        if not (host and backend):
            raise UsageError(f"{self.word} {target!r}: expected HOST+ATTENTION, as in transformer/eager+chunked")
        takers = [declaration for declaration in self.registered if may_take_backend(declaration)]
        candidates = _clear(host, _matching(host, takers)) or replace(self, signature="").named(host)
        if not (fitting := [declaration for declaration in candidates if may_take_backend(declaration)]):
            names = listed(_names(candidates), MAX_LISTED)
            raise UsageError(f"{names} takes no parameter 'attention'; models and multi_head_attention do")
        backends = replace(self, contract=DEFAULT_CONTRACT, word="backend").named(backend)
        return [with_backend(declaration, attention) for declaration in fitting for attention in backends]

    def _unknown(self, target: str) -> str:
        """The message that nothing has this name, with the closest names or all."""
        if elsewhere := _matching(target, self.everything):
            return f"{self.word} {target!r} is an implementation of {elsewhere[0].contract}, not of {self.contract}"
        # attention comes last, so that it has the equal names
        ordered = sorted(self.registered, key=lambda declaration: declaration.contract == DEFAULT_CONTRACT)
        alone = [declaration for declaration in ordered if not declaration.backend]
        names = {name: known.full_name for known in alone for name in (known.name, known.full_name)}
        close = list(dict.fromkeys(names[name] for name in get_close_matches(target, names, n=3)))
        if target in contract_names():
            close = [f"{target}/*"]
        if close:
            return f"unknown {self.word} {target!r}: did you mean {' or '.join(close)}?"
        contract = target.partition("/")[0]
        contract = contract if contract in contract_names() else self.contract or DEFAULT_CONTRACT
        there = listed([known.full_name for known in alone if known.contract == contract], MAX_LISTED) or "none"
        return f"unknown {self.word} {target!r}; implementations of {contract} are: {there}"

    def _of_path(self, file: Path, function: str) -> list[Declaration]:
        if not file.exists():
            close = get_close_matches(file.name, [path.name for path in file.parent.glob("*.py") if path.exists()])
            hint = f": did you mean {file.with_name(close[0])}?" if close else ""
            raise UsageError(f"no file {str(file)!r}{hint}")
        if file.suffix != ".py" or not file.is_file():
            raise UsageError(f"{str(file)!r} is not a Python file (.py)")
        file = file.resolve()
        here = [d for d in self.registered if d.file == str(file) and d.backend is None]
        if shipped := [d for d in here if function in ("", d.function)]:
            return shipped
        source = read(file)
        only = function or self._only(source)
        is_guess = not function and only in dict(source.weighted)
        whole = Declaration("", file.stem, only, "", str(file), named=bool(function), guessed=is_guess)
        if source.decorated and not function:
            return decorated(source, lambda declared: self._completed(replace(whole, function=""), declared, source))
        declaration = self._completed(whole, source.contract_of(function), source)
        if source.problem:
            return [replace(declaration, broken=source.problem)]
        return [_of_source(source, declaration) if function else declaration]

    def _only(self, source: FileSource) -> str:
        """The only function of a file with the name of a contract, which is then its contract; or with its parameters.

        Empty without such a function, with several, and for attention.
        """
        shown = dict(source.contracts)
        misnamed = {DEFAULT_CONTRACT} & shown.keys()
        names = [name for name, _ in source.lines if name in contract_names() and name not in misnamed]
        if not names and source.top in dict(source.weighted):
            return source.top
        if not names and len(shown) == 1 and self.contract in (None, *shown.values()):
            return next(iter(shown))
        only = names[0] if len(names) == 1 else DEFAULT_CONTRACT
        return only if only != DEFAULT_CONTRACT and self.contract in (None, only) else ""

    def _of_module(self, module: str, function: str) -> Declaration:
        if not all(part.isidentifier() for part in module.split(".")):
            raise UsageError(f"{module!r} is neither a file (.py) nor the name of a module")
        whole = Declaration("", module.rpartition(".")[2], function, module, named=True)
        with on_path(Path.cwd()):
            spec = locate(module)
        source = read(Path(spec.origin)) if spec and spec.origin and Path(spec.origin).suffix == ".py" else FileSource()
        whole = self._completed(whole, source.contract_of(function), source)
        if spec is None:  # a package may make it when the worker imports it, as `os` makes `os.path`
            if locate(module.partition(".")[0]) is None:
                raise UsageError(f"No module named {module.partition('.')[0]!r}")
        elif spec.origin and Path(spec.origin).suffix == ".py":
            whole = replace(whole, file=spec.origin, broken=source.problem)
        return _of_source(source, whole)

    def _completed(self, whole: Declaration, declared: str | None, source: FileSource) -> Declaration:
        """The declaration with its contract: that of the user or of the named signature, else of its decorator, its
        folder, its parameters or its name.
        """
        theirs = signature_named(self.signature).contract if self.signature else DEFAULT_CONTRACT
        of_signature = theirs if theirs != DEFAULT_CONTRACT else ""
        contract = self.contract or of_signature or declared or _implied_contract(whole, source)
        return with_signature(replace(whole, contract=contract), self.signature)


def _matching(target: str, registered: Iterable[Declaration]) -> list[Declaration]:
    """The declarations that a name, the name of a file, or a pattern selects."""
    registered = list(registered)

    def select(matches: Callable[[str], bool]) -> list[Declaration]:
        return [known for known in registered if matches(known.full_name) or matches(known.name)]

    if any(sign in target for sign in "*?["):
        return select(lambda name: fnmatchcase(name, target))
    return select(lambda name: name == target) or select(lambda name: name.startswith(f"{target}."))


def _clear(target: str, declarations: list[Declaration]) -> list[Declaration]:
    """Of declarations with the same name, those of attention if there are any. UsageError if several contracts fit."""
    contracts = sorted({declaration.contract for declaration in declarations})
    if len(contracts) < 2 or any(sign in target for sign in "*?["):
        return declarations
    if usual := [declaration for declaration in declarations if declaration.contract == DEFAULT_CONTRACT]:
        return usual
    choice = " or ".join(f"{contract}/{target}" for contract in contracts)
    raise UsageError(f"target {target!r} is ambiguous: {choice}")


def _names(declarations: Iterable[Declaration]) -> list[str]:
    return [declaration.full_name for declaration in declarations]


def _of_source(source: FileSource, whole: Declaration) -> Declaration:
    """The declaration of a named function: as its decorator declares it, or without details that its import will show.

    It is named after its variant or, unless that has the name of the contract, after the function.
    """
    name = whole.function.rpartition(".")[2]
    for function in source.decorated:
        if function.name == whole.function:
            variant = function.declared["variant"]
            return of_function(function, source, replace(whole, name=".".join(filter(None, (whole.name, variant)))))
    return whole if name == whole.contract else replace(whole, name=name)
