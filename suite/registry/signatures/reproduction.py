"""A call of the contract, as it stands in a reproduction, written as a call of the function itself."""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnsuite.cases import Call
from attnsuite.registry.signatures.signature import AttentionCall, Signature

TO_FOUR = {4: "", 3: "[None]", 2: "[None, None]"}
OF_RANK = {4: "", 3: "[0]", 2: "[0, 0]"}
CALLED = "attention"
"""What the function is called in a reproduction."""


def written(of: Signature, call: Call, lines: Sequence[str]) -> Sequence[str]:
    """The lines with the signature's own call; none where that cannot be said in one expression."""
    with contextlib.suppress(NotImplementedError, KeyError):
        own = _called(of, call)
        found = [_replaced(line, own) for line in lines]
        imports = [of.arrays.imports] if of.arrays.imports and found else []
        return [*imports, *found]
    return ()


def _replaced(line: str, own: str) -> str:
    """A line with every call of `attention` replaced by another expression."""
    for node in reversed([each for each in ast.walk(ast.parse(line)) if _is_call(each)]):
        assert isinstance(node, ast.Call)
        encoded = line.encode()
        before, after = encoded[: node.col_offset], encoded[node.end_col_offset :]
        text = own if isinstance(node.func, ast.Name) else f"torch.no_grad()(lambda: {own})()"
        line = before.decode() + text + after.decode()
    return line


def _is_call(node: ast.AST) -> bool:
    """Whether this is `attention(…)` or `torch.no_grad()(attention)(…)`."""
    if not isinstance(node, ast.Call):
        return False
    inner = node.func.args[0] if isinstance(node.func, ast.Call) and node.func.args else node.func
    return isinstance(inner, ast.Name) and inner.id == CALLED


def _called(of: Signature, call: Call) -> str:
    """The call itself, from tensors in the contract's axes to an output in the contract's axes."""
    rank = call.tensors["query"].dim()
    query, key, value = (call.tensors[name] for name in ("query", "key", "value"))
    masks = {name: each for name, each in call.tensors.items() if name not in call.positional}
    asked = AttentionCall(query, key, value, {**call.options, **masks})
    keywords = of.keywords(asked)
    apart = asked.groups if of.has_group_axis else 1
    if apart != 1 and any(hasattr(each, "dim") for each in keywords.values()):
        raise NotImplementedError("a mask of grouped heads has an axis that its own does not have")
    grouped = {} if apart == 1 else {"query": f".unflatten(2, ({asked.key_heads}, {apart}))"}
    expanded = "" if apart == 1 else f"[:, :, :, None].expand(-1, -1, -1, {apart}, -1)"
    names = ("query", "key", "value")
    given = [_array(of, f"{name}{_turned(of, rank)}{grouped.get(name, expanded)}") for name in names]
    given += [f"{name}={text}" for name, text in _options(of, keywords, masks)]
    answer = of.arrays.written_back.format(f"{CALLED}({', '.join(given)})")
    return f"{answer}{'.flatten(2, 3)' if grouped else ''}{_back(of, rank)}"


def _turned(of: Signature, rank: int) -> str:
    """What turns the contract's axes into the signature's."""
    if not of.adds_axes:
        return ""
    if not of.axes.startswith("b"):
        return _one_item(rank)
    return TO_FOUR[rank] + (".transpose(1, 2)" if of.heads_inside else "")


def _back(of: Signature, rank: int) -> str:
    if not of.adds_axes:
        return ""
    if not of.axes.startswith("b"):
        return ".transpose(0, 1)" + {3: "", 2: "[0]"}[rank]
    return (".transpose(1, 2)" if of.heads_inside else "") + OF_RANK[rank]


def _one_item(rank: int) -> str:
    """KeyError for four axes: a call for each item is no single expression."""
    return {3: "", 2: "[None]"}[rank] + ".transpose(0, 1)"


def _array(of: Signature, text: str) -> str:
    return of.arrays.written_to.format(text)


def _options(of: Signature, keywords: Mapping[str, Any], masks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Options as text. A mask has the name of the tensor that was given; one that was made cannot be said."""
    for name, value in keywords.items():
        if not hasattr(value, "dim"):
            yield name, repr(value)
        elif any(value is mask for mask in masks.values()) or _is_view(value, masks):
            yield name, _array(of, f"attn_mask{TO_FOUR[masks['attn_mask'].dim()] if of.adds_axes else ''}")
        else:
            raise NotImplementedError(f"{name} is made of what the contract gives")


def _is_view(value: Any, masks: Mapping[str, Any]) -> bool:
    """Whether it is a mask with axes added in front."""
    mask = masks.get("attn_mask")
    if mask is None or mask.dim() not in TO_FOUR:
        return False
    return bool(value.data_ptr() == mask.data_ptr() and value.shape[-mask.dim() :] == mask.shape)
