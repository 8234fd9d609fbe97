"""Calls of a function in another library's order of axes, from the contract's order and back."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper
from typing import Any

from attnsuite.registry.signatures.signature import INPUTS, OWN, Signature, SignatureCall, longest, signature

AXES = 4
"""Items, heads, positions and widths: the axes of libraries. A call of lower rank gets further axes of size 1."""
NO_BACKWARD = "the library has no backward pass"
NEEDS_NO_FLAG = "grouped heads need no flag in this signature"
HAS_ALL_AXES = "inputs and mask have all axes in this signature, so that a mask cannot have more of them"


class Adapter:
    """A function in the contract's signature: its inputs by position, and the options that `theirs` can express.

    It translates a call of the contract into a call of the function, and its output back. Gradients flow through.
    `own` are the function's parameters, None where it takes any. NotImplementedError, with the reason, for what the
    signature cannot express.
    """

    def __init__(
        self, function: Callable[..., Any], theirs: Signature, inputs: Sequence[str], own: Sequence[str] | None
    ) -> None:
        self.function, self.signature, self.inputs = function, theirs, inputs
        self.own = None if own is None else frozenset(own)
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        kind = inspect.Parameter
        positional = [kind(name, kind.POSITIONAL_OR_KEYWORD) for name in inputs]
        options = [kind(name, kind.KEYWORD_ONLY, default=None) for name in theirs.takes(self.own)]
        self.__signature__ = inspect.Signature([*positional, *options])

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        options |= zip(self.inputs, inputs, strict=False)
        if self.signature.call is not None:
            return self.signature.call(self.function, options, self.own)
        query, key, value = (options.pop(name) for name in INPUTS)
        call = SignatureCall(query, key, value, options)
        # without the contract's flag, grouped heads are bad input there and valid input in these signatures
        flagless = not self.signature.options.get("enable_gqa", ("",)) and not options.get("enable_gqa")
        if flagless and call.can_group:
            raise NotImplementedError(NEEDS_NO_FLAG)
        if self.signature.adds_axes and call.mask is not None and call.mask.dim() > query.dim():
            raise NotImplementedError(HAS_ALL_AXES)
        return self.signature.layout(self.signature, self.function, call)

    def with_layout(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """See the function `with_layout`."""
        return with_layout(tensors, self.signature)


def in_contract_signature(
    function: Callable[..., Any], name: str, own: Sequence[str] | None = None, required: frozenset[str] = frozenset()
) -> Callable[..., Any]:
    """The function in the contract's signature; `own` are its parameters, None where it takes any.

    `required` parameters are given in every call. In the contract's own signature nothing else changes.
    """
    if name != OWN:
        theirs = signature(name)
        given = replace(theirs, keywords=partial(theirs.with_defaults, required=required)) if required else theirs
        return Adapter(function, given, INPUTS, own)

    def call(query: Any, key: Any, value: Any, **options: Any) -> Any:
        keywords = signature(OWN).with_defaults(SignatureCall(query, key, value, options), required)
        return function(query, key, value, **keywords)

    return update_wrapper(call, function, (), ()) if required else function


def with_layout(tensors: Mapping[str, Any], theirs: Signature) -> dict[str, Any]:
    """Inputs by name; contiguous ones are laid out in memory in the signature's order of axes.

    Their numbers and axes stay. A function that expects contiguous inputs then gets contiguous ones.
    """
    inside = INPUTS if theirs.heads_inside else ()
    return {name: _with_heads_inside(tensor) if name in inside else tensor for name, tensor in tensors.items()}


def _with_heads_inside(tensor: Any) -> Any:
    """… h l e, with memory in the order … l h e."""
    if tensor.dim() < 3 or not tensor.is_contiguous():
        return tensor
    inside = tensor.transpose(-2, -3).contiguous()
    around, first = tensor.untyped_storage().nbytes() // tensor.element_size(), tensor.storage_offset()
    if around > tensor.numel():  # the memory before and after the tensor is copied, too
        storage = tensor.detach().as_strided((around,), (1,), 0).clone()
        inside = storage[first : first + tensor.numel()].view(inside.shape).copy_(inside)
    return inside.transpose(-2, -3)


# The orders of axes


def with_heads_inside(theirs: Signature, function: Callable[..., Any], call: SignatureCall) -> Any:
    """b l h e in and out, as in FlashAttention, xformers and JAX."""
    return _call(theirs, function, call, lambda tensor: four_axes(tensor).transpose(1, 2))


def with_heads_first(theirs: Signature, function: Callable[..., Any], call: SignatureCall) -> Any:
    """b h l e in and out, with all four axes, as in MLX."""
    return _call(theirs, function, call, four_axes)


def as_it_is(theirs: Signature, function: Callable[..., Any], call: SignatureCall) -> Any:
    """The contract's own axes."""
    return _output(theirs, function, [call.query, call.key, call.value], theirs.keywords(call))


def item_by_item(theirs: Signature, function: Callable[..., Any], call: SignatureCall) -> Any:
    """l h e in and out: a call for each item; the outputs are stacked."""
    import torch

    inputs = (call.query, call.key, call.value)
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs):
        raise NotImplementedError(NO_BACKWARD)
    tensors = [four_axes(tensor) for tensor in inputs]
    items = {tensor.shape[0] for tensor in tensors}
    if len(items) != 1:
        raise NotImplementedError("the function takes one item, so that numbers of items cannot differ")
    if items == {0}:
        raise NotImplementedError("the function takes one item, and the call has no item")
    results = []
    for item in range(tensors[0].shape[0]):
        rows = [tensor[item].transpose(0, 1) for tensor in tensors]
        results.append(_results(theirs, function, rows, _keywords_of_item(call, item, theirs), call))
    outputs, lses = zip(*results, strict=True)
    if not all(isinstance(output, torch.Tensor) and output.dim() == AXES - 1 for output in outputs):
        return outputs[0]
    output = of_rank(torch.stack([output.transpose(0, 1) for output in outputs]), call.query.dim())
    if not call.returns_lse:
        return output
    if not all(isinstance(lse, torch.Tensor) and lse.dim() == AXES - 2 for lse in lses):
        return output, lses[0]
    return output, of_rank(torch.stack([lse.transpose(0, 1) for lse in lses]), call.query.dim() - 1, AXES - 1)


def _keywords_of_item(call: SignatureCall, item: int, theirs: Signature) -> dict[str, Any]:
    """The keywords for one item: masks are those of the item."""
    mask = call.mask
    if mask is None:
        return theirs.keywords(call)
    mask = four_axes(mask)
    if mask.shape[0] not in (1, four_axes(call.query).shape[0]):
        raise NotImplementedError("the function takes one item, so that a mask cannot have others")
    options = {**call.options, "attn_mask": mask[item if mask.shape[0] > 1 else 0]}
    return theirs.keywords(replace(call, options=options))


def four_axes(tensor: Any) -> Any:
    """The tensor with axes of items and heads, of size 1 where they are missing."""
    if tensor.dim() > AXES:
        raise NotImplementedError(f"inputs of rank {tensor.dim()}: this signature has {AXES} axes at most")
    return tensor[(None,) * (AXES - tensor.dim())]


def of_rank(output: Any, rank: int, axes: int = AXES) -> Any:
    """An output of four axes without those that `four_axes` added; a log-sum-exp has three."""
    return output[(0,) * (axes - rank)] if all(size == 1 for size in output.shape[: axes - rank]) else output


def packed(given: Mapping[str, Any]) -> list[Any]:
    """The positional arguments of libraries for packed items: tensors, cu_seqlens, and the largest lengths."""
    ends = [given["cu_seqlens_q"], given["cu_seqlens_k"]]
    known = [given.get("max_seqlen_q"), given.get("max_seqlen_k")]
    largest = [longest(end) if most is None else most for end, most in zip(ends, known, strict=True)]
    return [*(given[name] for name in INPUTS), *ends, *largest]


def with_all_axes(mask: Any, sizes: Sequence[int], name: str) -> Any:
    """A view of a mask with these sizes. NotImplementedError, with the mask's name, where it does not broadcast."""
    try:
        return mask.expand(*sizes)
    except RuntimeError as error:
        raise NotImplementedError(f"{name} has all axes, so that it is the caller who expands a mask") from error


def first(returned: Any) -> Any:
    """The output in a return value: libraries return log-sum-exps and weights after it."""
    return returned[0] if isinstance(returned, tuple | list) and returned else returned


def _call(theirs: Signature, function: Callable[..., Any], call: SignatureCall, reorder: Callable[[Any], Any]) -> Any:
    """The function's output. `reorder` exchanges axes of the inputs, and applied to the output restores them."""
    import torch

    inputs = [reorder(tensor) for tensor in (call.query, call.key, call.value)]
    output, lse = _results(theirs, function, inputs, theirs.keywords(call), call)
    if isinstance(output, torch.Tensor) and output.dim() == AXES:
        output = of_rank(reorder(output), call.query.dim())
    if isinstance(lse, torch.Tensor) and lse.dim() == AXES - 1:
        lse = of_rank(lse, call.query.dim() - 1, AXES - 1)
    return (output, lse) if call.returns_lse else output


def _results(
    theirs: Signature,
    function: Callable[..., Any],
    inputs: Sequence[Any],
    keywords: dict[str, Any],
    call: SignatureCall,
) -> tuple[Any, Any]:
    """The function's output, and its log-sum-exp if it is requested. Only libraries of tensors return that."""
    if not call.returns_lse:
        return _output(theirs, function, inputs, keywords), None
    returned = function(*inputs, **keywords)
    several = isinstance(returned, tuple | list) and len(returned) > 1
    return (returned[0], returned[1]) if several else (returned, None)


def _output(theirs: Signature, function: Callable[..., Any], inputs: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """The output as a tensor. Tensors among the keywords become arrays as the inputs do."""
    import torch

    arrays = theirs.arrays
    named = [name for name, value in keywords.items() if isinstance(value, torch.Tensor)]
    others = {name: value for name, value in keywords.items() if name not in named}

    def on_arrays(*converted: Any) -> Any:
        tensors = dict(zip(named, converted[len(inputs) :], strict=True))
        return first(function(*converted[: len(inputs)], **tensors, **others))

    tensors = [*inputs, *(keywords[name] for name in named)]
    if arrays.with_gradient is not None:
        return arrays.with_gradient(on_arrays, tensors)
    return arrays.back(on_arrays(*map(arrays.to, tensors)))
