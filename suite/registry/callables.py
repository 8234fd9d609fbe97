"""What a target may be, apart from a function: a class, whose instance is called, or a module in evaluation mode."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from attnsuite.contracts import contract
from attnsuite.registry.declaration import Declaration, Uncallable, declared_by
from attnsuite.registry.roles import CONTRACTS, WEIGHTED, listed, meaning_of, named_parameters, needed

MAX_NAMED = 3
"""Names of arguments or weights in a message; of more, the others are counted."""

A_CLASS = "is a class: an instance made without arguments is called"
EVALUATED = "it is tested in evaluation mode"


def as_callable(target: Any, name: str, declaration: Declaration) -> tuple[Callable[..., Any], Declaration]:
    """What tests of its contract call, and the declaration with a line about its conversion, empty for a function.

    Of a class, an instance is made with the declared arguments. A `torch.nn.Module` is put in evaluation mode; one with
    weights of its own becomes a function that sets them. Where the contract tests what a factory makes, a class is a
    factory and stays. `name` is for messages. Raises `Uncallable`.
    """
    contract_name, arguments = declaration.contract, declaration.arguments
    if arguments and not isinstance(target, type):
        raise Uncallable(f"{name} is no class: write it without the arguments {arguments}")
    is_model = contract(contract_name).is_model
    made = target if isinstance(target, type) else type(target)
    if _is_module_or_class(target) and not (is_model and "weights" in inspect.signature(made).parameters):
        from torch.nn import Module

        if getattr(target.forward, "__func__", target.forward) is Module.forward:
            raise Uncallable(f"{name} is a module without a method forward")
        from attnsuite.registry.modules import as_function, owns_weights  # imports torch

        if contract_name in CONTRACTS and owns_weights(target):
            written = declaration.weights or declared_by(target).get("weights", {})
            function, says = as_function(target, name, arguments, written, contract_name)
            return function, replace(declaration, conversion=says, owns_weights=True, parameters=None)
    if is_model:
        return target, declaration
    conversions = []
    if isinstance(target, type):
        target = _instance(target, name, arguments)
        conversions.append(f"{name} {A_CLASS}")
    if is_module(target):
        _refuse_weights(target, name, contract_name)
        if target.training:
            target.eval()
            conversions.append(EVALUATED if conversions else f"{name} is a module: {EVALUATED}")
    return target, replace(declaration, conversion="; ".join(conversions))


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


def is_module(target: Any) -> bool:
    """Whether this is an instance of `torch.nn.Module`."""
    from torch.nn import Module

    return isinstance(target, Module)


def _is_module_or_class(target: Any) -> bool:
    from torch.nn import Module

    return is_module(target) or (isinstance(target, type) and issubclass(target, Module))


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


def _instance(made: type, name: str, arguments: str) -> Any:
    from torch.autograd import Function

    if issubclass(made, Function):
        raise Uncallable(f"{name} is an autograd Function, which is not called but applied: name {name}.apply")
    if not any("__call__" in vars(base) for base in made.__mro__):
        raise Uncallable(f"{name} is a class whose instances cannot be called: give it a method __call__")
    if arguments:
        from attnsuite.registry.modules import literal_arguments

        positional, named = literal_arguments(arguments, name)
    else:
        positional, named = [], {}
    if not arguments and (required := _required(made)):
        raise Uncallable(f"{name} is a class that is made with {listed(required, MAX_NAMED)}: name FILE.py:{name}(…)")
    try:
        return made(*positional, **named)
    except Exception as error:
        raise Uncallable(
            f"{name}{arguments or '()'} raises {type(error).__name__}: {' '.join(str(error).split())}"
        ) from error


def _required(made: type) -> list[str]:
    """The arguments without which no instance can be made."""
    try:
        return needed(named_parameters(made))
    except (TypeError, ValueError):  # a builtin class, which may need none
        return []


def _refuse_weights(module: Any, name: str, contract_name: str) -> None:
    """Raise Uncallable for a module with random weights of its own, in a contract that does not set them."""
    if not (own := [parameter for parameter, _ in module.named_parameters()]):
        return
    says = f"{name} has weights of its own ({listed(own, MAX_NAMED)}), which {contract_name} does not know"
    if contract_name == "attention":
        fitting = meaning_of(type(module).__name__, CONTRACTS, WEIGHTED)
        raise Uncallable(f"{says}: say --contract {fitting}, whose tests set them")
    signature = contract(contract_name).signature
    raise Uncallable(f"{says}: write a function around it that sets them to its arguments, as {signature}")


def usual_contract(target: Any) -> str:
    """The contract of an object, where its user names none: that of modules with weights, or attention."""
    from attnsuite.registry.modules import owns_weights

    if not (_is_module_or_class(target) and owns_weights(target)):
        return "attention"
    return meaning_of((target if isinstance(target, type) else type(target)).__name__, CONTRACTS, WEIGHTED)
