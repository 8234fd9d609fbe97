"""The backward pass in steps that a mutant may replace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from attnsuite.cases.mutants import formula
from attnsuite.contracts.attention.computation import forward
from attnsuite.contracts.attention.computation.call import AttentionCall, check
from attnsuite.contracts.attention.computation.forward import Computation, Condition, Dense, correct
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor


Gradients = dict[str, "Tensor | None"]
"""By input: query, key, value and the arguments that are tensors. None where no gradient is wanted."""


@cache
def _autograd_function() -> Any:
    """The autograd function that runs a computation's own passes."""

    class WithOwnGradient(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, computation: Backward, call: AttentionCall, names: tuple[str, ...], *inputs: Tensor
        ) -> Any:
            wanted = frozenset(name for name, need in zip(names, ctx.needs_input_grad[3:], strict=True) if need)
            output, ctx.state = computation.forward(call, wanted)
            ctx.computation, ctx.names = computation, names
            return output

        @staticmethod
        def backward(ctx: Any, *gradient: Tensor) -> Any:
            gradients = ctx.computation.backward(ctx.state, *gradient)
            return (None, None, None, *(gradients.get(name) for name in ctx.names))

    return WithOwnGradient


@dataclass
class Saved:
    """The state of `Backward` from its forward pass, in the accumulator's dtype and with the query's heads."""

    call: AttentionCall
    query: Tensor  # ... h l e
    key: Tensor  # ... h s e
    value: Tensor  # ... h s v
    weights: Tensor  # ... h l s
    keep: Tensor | float  # ... h l s, the factors of the weights
    scores: Tensor  # ... h l s, of the softmax, with a column for each sink
    wanted: frozenset[str]
    """The inputs that want a gradient."""


class Flow(NamedTuple):
    """The gradients of the scores, and of the products of query and key: ... h l s."""

    scores: Tensor
    products: Tensor


class Backward(Computation):
    """The dense formula with a gradient computed by hand."""

    own_gradient = True

    def __call__(self, call: AttentionCall) -> Any:
        check(call)
        inputs = call.tensors
        return _autograd_function().apply(self, call, tuple(inputs), *inputs.values())

    output_gradient = formula(lambda gradient, saved: gradient.to(saved.value.dtype))
    weights = formula(lambda saved: saved.weights)
    keep = staticmethod(lambda saved: saved.keep)

    weights_gradient = formula(lambda d_output, value, keep: (d_output @ value.transpose(-1, -2)) * keep)  # ... h l s
    mean = formula(lambda weights, d_weights, saved: (weights * d_weights).sum(-1, keepdim=True))  # ... h l 1
    scores_gradient = formula(lambda weights, d_weights, mean: weights * (d_weights - mean))  # ... h l s
    query_gradient = formula(lambda flow, saved: flow.products @ saved.key)  # ... h l e
    key_gradient = formula(lambda flow, saved: flow.products.transpose(-1, -2) @ saved.query)  # ... h s e
    # ... h s v
    value_gradient = formula(lambda kept_weights, d_output, saved: kept_weights.transpose(-1, -2) @ d_output)
    deliver = staticmethod(lambda gradients, saved: gradients)
    save = staticmethod(lambda saved: saved)  # at the end of the forward pass
    forget = staticmethod(lambda saved: None)  # at the end of the backward pass

    def forward(self, call: AttentionCall, wanted: frozenset[str]) -> tuple[Any, Saved]:
        """The result, and the state for the backward pass; `wanted` are the inputs that want a gradient."""
        query, key, value = Dense.widen(call)
        key, value = correct.spread(key, value, call)
        scores = forward_scores(call, query, key)
        weights = Dense.softmax(scores, call)[..., : call.keys]
        keep = forward.multiplier(weights, call)
        saved = Saved(call, query, key, value, weights, keep, scores, wanted)
        return self.result(((weights * keep) @ value).to(call.query.dtype), scores, call), self.save(saved)

    def backward(self, saved: Saved, *gradient: Tensor) -> Gradients:
        """The gradients of all inputs, in the query's dtype, given the output's, and that of a second result."""
        with torch.no_grad():
            gradients: Gradients = dict.fromkeys(saved.call.tensors)
            weights, keep = self.weights(saved), self.keep(saved)
            d_output, *second = self.output_gradient(gradient[0], saved), *gradient[1:]
            d_weights = self.weights_gradient(d_output, saved.value, keep)
            mean = self.mean(weights, d_weights, saved)
            for hooks in forward.all_hooks():
                mean = hooks.mean(self, mean, *second, saved) if hooks.mean and second else mean
            for hooks in forward.all_hooks():
                if hooks.sink_gradient:
                    hooks.sink_gradient(self, mean, saved, gradients)
            d_scores = self.scores_gradient(weights, d_weights, mean)
            flow = Flow(d_scores, self.through_scores(d_scores, saved, gradients))
            if "query" in saved.wanted:
                gradients["query"] = self.query_gradient(flow, saved)
            if "key" in saved.wanted:
                gradients["key"] = self.gather(self.key_gradient(flow, saved), saved)
            if "value" in saved.wanted:
                gradients["value"] = self.gather(self.value_gradient(weights * keep, d_output, saved), saved)
            dtype = saved.call.query.dtype
            gradients = {name: None if tensor is None else tensor.to(dtype) for name, tensor in gradients.items()}
            delivered: Gradients = self.deliver(gradients, saved)
            self.forget(saved)
            return delivered

    def through_scores(self, d_scores: Tensor, saved: Saved, gradients: Gradients) -> Tensor:
        """The gradient of the products, back through the features' changes of the scores."""
        for hooks in reversed(forward.all_hooks()):
            if hooks.score_gradient:
                d_scores = hooks.score_gradient(self, d_scores, saved, gradients)
        return d_scores

    def gather(self, gradient: Tensor, saved: Saved) -> Tensor:
        """The gradient of the keys or values as they were passed."""
        for hooks in reversed(forward.all_hooks()):
            if hooks.source_gradient:
                gradient = hooks.source_gradient(self, gradient, saved)
        return gradient


def ignoring(argument: str, off: Any, where: Condition = lambda call: True) -> Callable[[Saved], Tensor]:
    """The mistake of a backward pass that ignores an argument: its weights are computed without it."""

    def weights(saved: Saved) -> Tensor:
        call = saved.call
        passed = call[argument] is not None and call[argument] is not False and where(call)
        if not passed:
            return saved.weights
        scores = forward_scores(call.but(**{argument: off}), saved.query, saved.key)
        return Dense.softmax(scores, call)[..., : call.keys]

    return weights


def forward_scores(call: AttentionCall, query: Tensor, key: Tensor) -> Tensor:
    """The scores of the softmax, of widened queries and keys that have the query's heads."""
    return correct.with_sinks(correct.score(Dense.products(query, key), call, call.grid()), call)
