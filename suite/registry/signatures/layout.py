"""Orders of axes: the contract's, … h l e, and those of other libraries, which have the heads inside or no items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from attnsuite.registry.signatures.signature import AttentionCall, Signature

AXES = 4
"""Items, heads, positions and widths: what libraries have. A call of a lower rank gets the others with size 1."""
NO_BACKWARD = "the library has no backward pass"


def with_heads_inside(signature: Signature, function: Callable[..., Any], asked: AttentionCall) -> Any:
    """b l h e in and out, as FlashAttention, xformers and JAX have it."""
    return _called(signature, function, asked, lambda tensor: four_axes(tensor).transpose(1, 2))


def with_heads_first(signature: Signature, function: Callable[..., Any], asked: AttentionCall) -> Any:
    """b h l e in and out, with all four axes, as MLX has it."""
    return _called(signature, function, asked, four_axes)


def as_it_is(signature: Signature, function: Callable[..., Any], asked: AttentionCall) -> Any:
    """The contract's own axes."""
    return _called(signature, function, asked, lambda tensor: tensor, restored=False)


def item_by_item(signature: Signature, function: Callable[..., Any], asked: AttentionCall) -> Any:
    """l h e in and out: a call for each item, whose answers are put together."""
    import torch

    inputs = (asked.query, asked.key, asked.value)
    if torch.is_grad_enabled() and any(each.requires_grad for each in inputs):
        raise NotImplementedError(NO_BACKWARD)
    tensors = [four_axes(each) for each in inputs]
    items = {each.shape[0] for each in tensors}
    if len(items) != 1:
        raise NotImplementedError("the function takes one item, so that numbers of items cannot differ")
    if items == {0}:
        raise NotImplementedError("the function takes one item, and there is none")
    answers = []
    for item in range(tensors[0].shape[0]):
        rows = [each[item].transpose(0, 1) for each in tensors]
        answers.append(_answered(signature, function, rows, _of_item(asked, item, signature)))
    if not all(isinstance(each, torch.Tensor) and each.dim() == AXES - 1 for each in answers):
        return answers[0]
    return of_rank(torch.stack([each.transpose(0, 1) for each in answers]), asked.query.dim())


def _of_item(asked: AttentionCall, item: int, signature: Signature) -> dict[str, Any]:
    """The keywords for one item: masks are those of the item."""
    mask = asked.mask
    if mask is None:
        return signature.keywords(asked)
    mask = four_axes(mask)
    if mask.shape[0] not in (1, four_axes(asked.query).shape[0]):
        raise NotImplementedError("the function takes one item, so that a mask cannot have others")
    options = {**asked.options, "attn_mask": mask[item if mask.shape[0] > 1 else 0]}
    return signature.keywords(replace(asked, options=options))


def four_axes(tensor: Any) -> Any:
    """The tensor with the axes of items and heads that libraries expect, of size 1 where they are missing."""
    if tensor.dim() > AXES:
        raise NotImplementedError(f"inputs of rank {tensor.dim()}: this signature has {AXES} axes at most")
    return tensor[(None,) * (AXES - tensor.dim())]


def of_rank(output: Any, rank: int) -> Any:
    """An output of four axes without those that were added."""
    return output[(0,) * (AXES - rank)] if all(size == 1 for size in output.shape[: AXES - rank]) else output


def first(answer: Any) -> Any:
    """The output of what was returned: libraries return log-sum-exps and weights behind it."""
    return answer[0] if isinstance(answer, tuple | list) and answer else answer


def _called(
    signature: Signature,
    function: Callable[..., Any],
    asked: AttentionCall,
    turned: Callable[[Any], Any],
    restored: bool = True,
) -> Any:
    """The function's output, turned back by what turned its inputs: exchanging two axes twice changes nothing."""
    import torch

    inputs = [turned(each) for each in (asked.query, asked.key, asked.value)]
    output = _answered(signature, function, inputs, signature.keywords(asked))
    if not restored or not isinstance(output, torch.Tensor) or output.dim() != AXES:
        return output
    return of_rank(turned(output), asked.query.dim())


def _answered(
    signature: Signature, function: Callable[..., Any], inputs: Sequence[Any], keywords: dict[str, Any]
) -> Any:
    """The output as a tensor. Tensors among the keywords become arrays as the inputs do."""
    import torch

    arrays = signature.arrays
    named = [name for name, each in keywords.items() if isinstance(each, torch.Tensor)]
    others = {name: each for name, each in keywords.items() if name not in named}

    def of(*given: Any) -> Any:
        return first(function(*given[: len(inputs)], **dict(zip(named, given[len(inputs) :], strict=True)), **others))

    tensors = [*inputs, *(keywords[name] for name in named)]
    if arrays.with_gradient is not None:
        return arrays.with_gradient(of, tensors)
    return arrays.back(of(*map(arrays.to, tensors)))
