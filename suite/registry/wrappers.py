"""Python for the user: a function of a contract around one that no test can call, or around a module with weights."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from attnsuite.registry.declaration import Declaration
from attnsuite.registry.signatures import SIGNATURES_OF

FILL_IN = "...  # fill in"
"""In place of a value that only the author knows."""
WEIGHTED = "multi_head_attention"
"""The contract whose calls give the weights of a layer."""
HEADS = re.compile(r"head(?!.*(dim|size|width))")
"""Names of a constructor's argument for the number of heads."""
WIDTH = re.compile(r"dim|width|embd|embed|model|hidden|features|size|channels")
"""Names of a constructor's argument for the width of inputs and outputs."""
ROLES = {
    "w_query": re.compile(r"(?<![a-z])w?(to)?_?(q|query|queries)(?![a-z])"),
    "w_key": re.compile(r"(?<![a-z])w?(to)?_?(k|key|keys)(?![a-z])"),
    "w_value": re.compile(r"(?<![a-z])w?(to)?_?(v|value|values)(?![a-z])"),
}
"""Names of the weights of projections in modules."""
FUSED = "fused"
"""The role of a matrix that computes queries, keys and values at once."""
TRANSPOSED = {role: f"{role}.T" for role in (*ROLES, "w_output")} | {FUSED: "torch.cat([w_query, w_key, w_value], 1).T"}
"""The value of a module's weight by its role: modules store the transpose of the contract's weight."""
ARGUMENTS_OF_TORCH = {"embed_dim": "width", "num_heads": "num_heads", "batch_first": "True"}
"""The constructor's arguments of `torch.nn.MultiheadAttention`."""


def fill_in(names: Iterable[str]) -> list[str]:
    """A line for each value that the author has to fill in."""
    return [f"    {name} = {FILL_IN}" for name in names]


def around_function(
    declaration: Declaration, parameters: Sequence[inspect.Parameter], inputs: Sequence[str], misplaced: bool
) -> tuple[list[str], list[str]]:
    """The arguments that a function gets, and the lines of a function of the contract around it.

    `inputs` are the contract's. A parameter corresponds to an input by its name or its first letter, else by its place,
    unless places are `misplaced`.
    """
    letters = {name[0]: name for name in inputs} if declaration.contract == SIGNATURES_OF else {}
    roles = letters | {name: name for name in inputs}
    if not {*inputs} <= {roles.get(each.name) for each in parameters}:
        places = [] if misplaced else [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        roles = dict(zip(places, inputs, strict=False))
    needed = [each for each in parameters if each.default is each.empty or each.name in roles]
    passed = [roles.get(each.name, each.name) for each in needed]
    arguments = [
        f"{each.name}={value}" if each.kind is each.KEYWORD_ONLY else value
        for each, value in zip(needed, passed, strict=True)
    ]
    home, (name, dot, attribute) = (
        declaration.module or Path(declaration.file).stem,
        declaration.function.partition("."),
    )
    return passed, [
        f"from {home} import {name} as mine" if home and name else f"mine = {declaration.name}",
        "",
        f"def {declaration.contract}({', '.join(inputs)}):",
        *fill_in(value for value in passed if value not in inputs),
        f"    return mine{dot}{attribute}({', '.join(arguments)})",
    ]


def around_module(module: Any) -> list[str]:
    """A function of `multi_head_attention` around a `torch.nn.Module` that has weights of its own.

    Biases are 0. Weights and arguments that are not recognised by their names are to be filled in.
    """
    from torch.nn import MultiheadAttention

    made, is_multihead = type(module), isinstance(module, MultiheadAttention)
    arguments = dict(ARGUMENTS_OF_TORCH) if is_multihead else _arguments(made)
    roles = _roles({name: weight for name, weight in module.named_parameters() if not name.endswith("bias")})
    has_output = "w_output" in roles.values()
    inputs = "query, key, value, w_query, w_key, w_value"
    return [
        "import torch",
        f"from {_home(made)} import {made.__name__}",
        "",
        f"def {WEIGHTED}({inputs}, *, {'w_output=None, ' * has_output}num_heads):",
        "    width = w_query.shape[1]",
        *["    w_output = w_output if w_output is not None else torch.eye(width).to(query)"] * has_output,
        f"    if {{each.shape[-1] for each in ({inputs}{', w_output' * has_output})}} != {{width}}:",
        '        raise NotImplementedError("the module has one width")',
        *fill_in(name for name, value in arguments.items() if value == FILL_IN),
        f"    module = {made.__name__}({_passed(arguments)}).to(query).eval()",
        "    biases = [name for name, _ in module.named_parameters() if name.endswith('bias')]",
        "    weights = {name: torch.zeros_like(module.get_parameter(name)) for name in biases}",
        *(f"    weights[{name!r}] = {TRANSPOSED.get(role, FILL_IN)}" for name, role in roles.items()),
        *(_call_of_one(roles) if not is_multihead and _inputs(module) == 1 else _call_of_three(is_multihead)),
    ]


def _home(made: type) -> str:
    """The name of the module to import a class from; a file is imported from its own folder."""
    if made.__module__.startswith("torch.nn."):
        return "torch.nn"
    file = getattr(sys.modules.get(made.__module__), "__file__", None) or ""
    return Path(file).stem if made.__module__.startswith("attnsuite_file_") else made.__module__


def _roles(weights: Mapping[str, Any]) -> dict[str, str]:
    """The role of each matrix of a module; empty where no name shows it."""
    from torch.nn.parameter import is_lazy

    shapes = {name: () if is_lazy(weight) else tuple(weight.shape) for name, weight in weights.items()}
    matrices = [name for name, shape in shapes.items() if len(shape) in (0, 2)]
    fused = [name for name in matrices if shapes[name] and shapes[name][0] == 3 * shapes[name][1]]
    roles = {_named(matrices, pattern): role for role, pattern in ROLES.items()}
    roles.pop("", None)
    if fused:
        roles = {fused[0]: FUSED}
    elif not roles and len(matrices) == len((*ROLES, "w_output")):
        roles = dict(zip(matrices, ROLES, strict=False))  # in the order of the contract
    rest = [name for name in matrices if name not in roles]
    if len(rest) == 1 and len(roles) in (1, len(ROLES)):
        roles[rest[0]] = "w_output"
    return {name: roles.get(name, "") for name in matrices}


def _named(matrices: Sequence[str], pattern: re.Pattern[str]) -> str:
    """The only matrix whose name fits; empty where none or several do."""
    fitting = [name for name in matrices if pattern.search(name.removesuffix(".weight").lower())]
    return fitting[0] if len(fitting) == 1 else ""


def _arguments(made: type) -> dict[str, str]:
    """The arguments of a constructor, as expressions."""
    arguments: dict[str, str] = {}
    for name, parameter in inspect.signature(made).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if HEADS.search(name):
            arguments[name] = "num_heads"
        elif WIDTH.search(name) and "head" not in name and "width" not in arguments.values():
            arguments[name] = "width"
        elif parameter.default is parameter.empty:
            arguments[name] = FILL_IN
    return arguments


def _passed(arguments: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={name if value == FILL_IN else value}" for name, value in arguments.items())


def _inputs(module: Any) -> int:
    """The number of inputs that a module requires."""
    parameters = inspect.signature(module.forward).parameters.values()
    return sum(each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD for each in parameters)


def _call_of_three(returns_weights: bool) -> list[str]:
    output = "[0]" if returns_weights else ""
    return [f"    return torch.func.functional_call(module, weights, (query, key, value)){output}"]


def _call_of_one(roles: Mapping[str, str]) -> list[str]:
    """Calls of a module with one input: hooks give keys and values to its projections."""
    places = {role: f"    module.{name.removesuffix('.weight')}" for name, role in roles.items() if role}
    hooks = [
        f"{place}.register_forward_pre_hook(lambda *_: {role.removeprefix('w_')})"
        for role, place in places.items()
        if role in ("w_key", "w_value")
    ]
    if FUSED in places:
        maps = "torch.cat([inputs[0] @ w_query, key @ w_key, value @ w_value], -1)"
        hooks = [f"    fused = lambda _, inputs, output: {maps}", f"{places[FUSED]}.register_forward_hook(fused)"]
    return [
        *hooks,
        "    if 0 in (query.numel(), key.numel()):",
        '        raise NotImplementedError("the module takes no empty input")',
        "    outputs = []",
        "    for rows in query.split(key.shape[1], 1):  # the module takes as many queries as keys",
        "        x = torch.nn.functional.pad(rows, (0, 0, 0, key.shape[1] - rows.shape[1]))",
        "        output = torch.func.functional_call(module, weights, (x,))",
        "        outputs.append(output[:, : rows.shape[1]])",
        "    return torch.cat(outputs, 1)",
    ]
