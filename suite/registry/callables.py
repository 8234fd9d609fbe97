"""What a target may be, apart from a function: a class, whose instance is called, or a module in evaluation mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnsuite.contracts import contract, names
from attnsuite.registry.declaration import Declaration
from attnsuite.registry.wrappers import WEIGHTED, around_module

MAX_NAMED = 3
"""Names of arguments or weights in a message; of more, the others are counted."""
ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

A_CLASS = "is a class: an instance made without arguments is called"
EVALUATED = "it is tested in evaluation mode"
DROPS_NOTHING = ", in which nn.Dropout drops nothing"


class Uncallable(Exception):
    """A target that cannot be called as a function, in one line that says what to write instead."""


def as_callable(target: Any, name: str, contract_name: str) -> tuple[Callable[..., Any], str]:
    """What tests of a contract call, and one line about its conversion, empty for a function.

    Of a class, an instance is made without arguments. A `torch.nn.Module` is put in evaluation mode. Where the contract
    tests what a factory makes, a class is a factory and stays. `name` is for messages. Raises `Uncallable`.
    """
    if deferred := _deferred(target):
        raise Uncallable(f"{name} is {deferred}: its call returns before it computes; write a plain function")
    if contract_name in names() and contract(contract_name).is_model:
        return target, ""
    conversions = []
    if isinstance(target, type):
        target = _instance(target, name)
        conversions.append(f"{name} {A_CLASS}")
    if is_module(target):
        if _without_forward(target):
            raise Uncallable(f"{name} is a module without a method forward")
        _refuse_weights(target, name, contract_name)
        if target.training:
            target.eval()
            mode = EVALUATED + (DROPS_NOTHING if _has_dropout(target) else "")
            conversions.append(mode if conversions else f"{name} is a module: {mode}")
    return target, "; ".join(conversions)


def import_lines(declaration: Declaration) -> tuple[str, ...]:
    """Lines for another Python: they import torch, and the function under its contract's name; empty with a backend.

    A file is imported from its folder, as the suite does.
    """
    first, _, attribute = declaration.function.partition(".")
    if declaration.backend or not first or not (declaration.module or declaration.file):
        return ()
    name = declaration.contract
    then = [f"{name} = {first}.{attribute}"] if attribute else []
    if declaration.conversion:
        made = "()" if A_CLASS in declaration.conversion else ""
        then.append(f"{name} = {name}{made}{'.eval()' if EVALUATED in declaration.conversion else ''}")
    alias = "" if attribute or first == name else f" as {name}"
    if declaration.module:
        return ("import torch", f"from {declaration.module} import {first}{alias}", *then)
    file = Path(declaration.file).resolve()
    if file.stem.isidentifier():
        path = f"import sys, torch; sys.path.insert(0, {str(file.parent)!r})"
        return (path, f"from {file.stem} import {first}{alias}", *then)
    return () if then else ("import runpy, torch", f"{name} = runpy.run_path({str(file)!r})[{first!r}]")


def _deferred(target: Any) -> str:
    """The kind of a function that computes nothing when it is called; empty for others."""
    if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
        return "async"
    return "a generator" if inspect.isgeneratorfunction(target) else ""


def is_module(target: Any) -> bool:
    """Whether this is an instance of `torch.nn.Module`."""
    from torch.nn import Module

    return isinstance(target, Module)


def _without_forward(module: Any) -> bool:
    from torch.nn import Module

    return getattr(module.forward, "__func__", None) is Module.forward


def _has_dropout(module: Any) -> bool:
    from torch.nn.modules.dropout import _DropoutNd

    return any(isinstance(each, _DropoutNd) for each in module.modules())


@contextmanager
def preserve_modes(target: Any) -> Iterator[None]:
    """Restore the training mode of each part of a caller's own module after the block."""
    modules = list(target.modules()) if is_module(target) else []
    before = [module.training for module in modules]
    try:
        yield
    finally:
        for module, training in zip(modules, before, strict=True):
            module.training = training


def _instance(made: type, name: str) -> Any:
    from torch.autograd import Function

    if issubclass(made, Function):
        raise Uncallable(f"{name} is an autograd Function, which is not called but applied: name {name}.apply")
    if not any("__call__" in vars(each) for each in made.__mro__):
        raise Uncallable(f"{name} is a class whose instances cannot be called: give it a method __call__")
    if required := _required(made):
        example = ", ".join(f"{each}=…" for each in required[:MAX_NAMED]) + (", …" if required[MAX_NAMED:] else "")
        write = f"write an instance below it, mine = {name}({example}), and name that"
        raise Uncallable(f"{name} is a class that is made with {_some(required)}: {write}")
    try:
        return made()
    except Exception as error:
        raise Uncallable(f"{name}() raises {type(error).__name__}: {' '.join(str(error).split())}") from error


def _required(made: type) -> list[str]:
    """The arguments without which no instance can be made."""
    try:
        parameters = inspect.signature(made).parameters.values()
    except (TypeError, ValueError):  # a builtin class, which may need none
        return []
    return [each.name for each in parameters if each.default is each.empty and each.kind not in ANY_NUMBER]


def _refuse_weights(module: Any, name: str, contract_name: str) -> None:
    """Raise Uncallable for a module with random weights of its own, for which no output is expected."""
    if not (own := [each for each, _ in module.named_parameters()]):
        return
    says = f"{name} has weights of its own ({_some(own)}), so that no expected output is known"
    if contract_name not in ("attention", WEIGHTED):
        signature = contract(contract_name).signature if contract_name in names() else "the contract's signature"
        raise Uncallable(f"{says}: write a function around it that sets them to its arguments, as {signature}")
    code = "".join(f"\n    {line}" for line in around_module(module))
    where = f"the contract {WEIGHTED}, which gives them"
    write = f"write a function around it in {where}, as below, and name it, FILE.py:{WEIGHTED}"
    raise Uncallable(f"{says}: {write}\n{code}")


def _some(words: list[str]) -> str:
    """The first MAX_NAMED words, and how many more there are."""
    more = f" and {len(words) - MAX_NAMED} more" if words[MAX_NAMED:] else ""
    return ", ".join(words[:MAX_NAMED]) + more
