"""A call of the contract, as Python, rewritten as a call of a function with another library's signature."""

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnsuite.cases import Call
from attnsuite.registry.signatures.signature import INPUTS, Signature, SignatureCall

ADD_AXES = {4: "", 3: "[None]", 2: "[None, None]"}
REMOVE_AXES = {4: "", 3: "[0]", 2: "[0, 0]"}
FUNCTION = "attention"
"""The name of the function in a reproduction."""


def call_lines(theirs: Signature, call: Call, lines: Sequence[str]) -> Sequence[str]:
    """The lines with the call in this signature; empty where one expression cannot express it, as with two outputs."""
    if call.second:
        return ()
    with contextlib.suppress(NotImplementedError, KeyError):
        expression = _expression(theirs, call)
        rewritten = [_replaced(line, expression) for line in lines]
        imports = [theirs.arrays.imports] if theirs.arrays.imports and rewritten else []
        return [*imports, *rewritten]
    return ()


def _replaced(line: str, expression: str) -> str:
    """A line in which the expression replaces every call of `attention`."""
    for node in reversed([inner for inner in ast.walk(ast.parse(line)) if _is_call(inner)]):
        assert isinstance(node, ast.Call)
        encoded = line.encode()
        before, after = encoded[: node.col_offset], encoded[node.end_col_offset :]
        text = expression if isinstance(node.func, ast.Name) else f"torch.no_grad()(lambda: {expression})()"
        line = before.decode() + text + after.decode()
    return line


def _is_call(node: ast.AST) -> bool:
    """Whether this is `attention(…)` or `torch.no_grad()(attention)(…)`."""
    if not isinstance(node, ast.Call):
        return False
    inner = node.func.args[0] if isinstance(node.func, ast.Call) and node.func.args else node.func
    return isinstance(inner, ast.Name) and inner.id == FUNCTION


def _expression(theirs: Signature, call: Call) -> str:
    """The call, from tensors in the contract's axes to an output in the contract's axes.

    KeyError for four axes where a signature has three: a call for each item is no single expression.
    """
    rank = call.tensors["query"].dim()
    masks = {name: tensor for name, tensor in call.tensors.items() if name not in call.positional}
    query, key, value = (call.tensors[name] for name in INPUTS)
    keywords = theirs.keywords(SignatureCall(query, key, value, {**call.options, **masks}))
    before, after = _reordering(theirs, rank)
    arguments = [theirs.arrays.written_to.format(f"{name}{before}") for name in INPUTS]
    arguments += [f"{name}={text}" for name, text in _options(theirs, keywords, masks)]
    return theirs.arrays.written_back.format(f"{FUNCTION}({', '.join(arguments)})") + after


def _reordering(theirs: Signature, rank: int) -> tuple[str, str]:
    """What changes the contract's axes into the signature's, and back."""
    if not theirs.adds_axes:
        return "", ""
    if not theirs.axes.startswith("b"):
        return {3: "", 2: "[None]"}[rank] + ".transpose(0, 1)", ".transpose(0, 1)" + {3: "", 2: "[0]"}[rank]
    exchange = ".transpose(1, 2)" if theirs.heads_inside else ""
    return ADD_AXES[rank] + exchange, exchange + REMOVE_AXES[rank]


def _options(theirs: Signature, keywords: Mapping[str, Any], masks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Options as text; a mask by the name of its tensor. NotImplementedError for a tensor that the adapter made."""
    for name, value in keywords.items():
        if not hasattr(value, "dim"):
            yield name, repr(value)
        elif value is masks.get("sinks"):
            yield name, theirs.arrays.written_to.format("sinks")
        elif any(value is mask for mask in masks.values()) or _is_view(value, masks):
            axes = ADD_AXES[masks["attn_mask"].dim()] if theirs.adds_axes else ""
            yield name, theirs.arrays.written_to.format(f"attn_mask{axes}")
        else:
            raise NotImplementedError(f"{name} is computed from the contract's arguments")


def _is_view(value: Any, masks: Mapping[str, Any]) -> bool:
    """Whether it is a mask with axes added in front."""
    mask = masks.get("attn_mask")
    if mask is None or mask.dim() not in ADD_AXES:
        return False
    return bool(value.data_ptr() == mask.data_ptr() and value.shape[-mask.dim() :] == mask.shape)
