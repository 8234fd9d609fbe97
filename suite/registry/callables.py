"""What a target may be beside a function: a class, whose instance is called, or a module, in evaluation mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attnsuite.contracts import contract, names
from attnsuite.registry.wrappers import WEIGHTED, around_module

MOST_NAMED = 3
"""The most names of arguments or weights in a message: more would not be read."""


A_CLASS = "is a class: an instance made without arguments is called"
EVALUATED = "it is asked in evaluation mode"
DROPS_NOTHING = ", in which nn.Dropout drops nothing"


class Uncallable(Exception):
    """A target that cannot be called as a function, in one line that says what to write instead."""


@dataclass(frozen=True)
class Styled:
    """What is called, and one line that says what was made of the target; empty for a plain function."""

    function: Callable[..., Any]
    said: str = ""


def as_callable(target: Any, name: str, of: str) -> Styled:
    """The function that a target means in the contract `of`; it is known to its author as `name`.

    Of a class one instance is made, without arguments. A `torch.nn.Module` is put in evaluation mode. A model's
    contract asks for a factory, which a class is, so that there nothing is changed. Raises `Uncallable` where it is not
    clear what is to be called.
    """
    if deferred := _deferred(target):
        raise Uncallable(f"{name} is {deferred}: its call returns before anything is computed; write a plain function")
    if of in names() and contract(of).is_model:
        return Styled(target)
    said = []
    if isinstance(target, type):
        target = _instance(target, name)
        said.append(f"{name} {A_CLASS}")
    if is_module(target):
        if _without_forward(target):
            raise Uncallable(f"{name} is a module without a method forward")
        _refuse_weights(target, name, of)
        if target.training:
            target.eval()
            mode = EVALUATED + (DROPS_NOTHING if _has_dropout(target) else "")
            said.append(mode if said else f"{name} is a module: {mode}")
    return Styled(target, "; ".join(said))


def _deferred(target: Any) -> str:
    """What a function is that computes nothing when it is called; empty for others."""
    if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
        return "async"
    return "a generator" if inspect.isgeneratorfunction(target) else ""


def in_python(name: str, said: str) -> str:
    """What is called, as an expression, where the target is called `name` and `said` is what was made of it."""
    return f"{name}{'()' if A_CLASS in said else ''}{'.eval()' if EVALUATED in said else ''}"


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


def called(function: Callable[..., Any]) -> Callable[..., Any]:
    """Whose signature says what can be given: a module's `forward`, for its `__call__` takes anything."""
    return function.forward if is_module(function) else function  # type: ignore[attr-defined]


@contextmanager
def preserve_modes(target: Any) -> Iterator[None]:
    """Put a caller's own module back in training mode after the block, each part of it as it was."""
    parts = list(target.modules()) if is_module(target) else []
    before = [part.training for part in parts]
    try:
        yield
    finally:
        for part, training in zip(parts, before, strict=True):
            part.training = training


def _instance(of: type, name: str) -> Any:
    from torch.autograd import Function

    if issubclass(of, Function):
        raise Uncallable(f"{name} is an autograd Function, which is not called but applied: name {name}.apply")
    if not any("__call__" in vars(each) for each in of.__mro__):
        raise Uncallable(f"{name} is a class whose instances cannot be called: give it a method __call__")
    if needed := _needed(of):
        example = ", ".join(f"{each}=…" for each in needed[:MOST_NAMED]) + (", …" if needed[MOST_NAMED:] else "")
        write = f"write an instance below it, mine = {name}({example}), and name that"
        raise Uncallable(f"{name} is a class that is made with {_some(needed)}: {write}")
    try:
        return of()
    except Exception as error:
        raise Uncallable(f"{name}() raises {type(error).__name__}: {' '.join(str(error).split())}") from error


def _needed(of: type) -> list[str]:
    """The arguments without which no instance can be made."""
    try:
        parameters = inspect.signature(of).parameters.values()
    except (TypeError, ValueError):  # a builtin class, which may need none
        return []
    return [each.name for each in parameters if each.default is each.empty and each.kind not in _ANY_NUMBER]


_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _refuse_weights(module: Any, name: str, of: str) -> None:
    """Raise Unfit for a module that was drawn weights of its own, of which no expected value is known."""
    if not (own := [each for each, _ in module.named_parameters()]):
        return
    says = f"{name} has weights of its own ({_some(own)}), so that no expected output is known"
    if of not in ("attention", WEIGHTED):
        signature = contract(of).signature if of in names() else "the contract's signature"
        raise Uncallable(f"{says}: write a function around it that sets them to its arguments, as {signature}")
    code = "".join(f"\n    {line}" for line in around_module(module))
    where = f"the contract {WEIGHTED}, which gives them"
    raise Uncallable(
        f"{says}: write a function around it in {where}, as below, and name it, FILE.py:{WEIGHTED}\n{code}"
    )


def _some(words: list[str]) -> str:
    """The first few of them."""
    more = f" and {len(words) - MOST_NAMED} more" if words[MOST_NAMED:] else ""
    return ", ".join(words[:MOST_NAMED]) + more
