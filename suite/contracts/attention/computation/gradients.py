"""The backward pass in steps that a mutant may replace: its own formulas, or a second forward pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from attnsuite.cases.mutants import formula
from attnsuite.contracts.attention.computation.call import AttentionCall, check
from attnsuite.contracts.attention.computation.forward import Computation, Dense, computed, correct, multiplier
from attnsuite.contracts.attention.lazily import torch

if TYPE_CHECKING:
    from torch import Tensor


Gradients = dict[str, "Tensor | None"]
"""By input: query, key, value and the arguments that are tensors. None where no gradient is wanted."""


@dataclass(frozen=True)
class Saved:
    """What the forward keeps for the backward, in the accumulator's dtype and with the query's heads."""

    call: AttentionCall
    query: Tensor  # ... h l e
    key: Tensor  # ... h s e
    value: Tensor  # ... h s v
    weights: Tensor  # ... h l s
    keep: Tensor | float  # ... h l s, what features multiply the weights by
    wanted: frozenset[str]
    """The inputs that want a gradient."""


class Flow(NamedTuple):
    """The gradients of the scores, and of the products of query and key that they were made of: ... h l s."""

    scores: Tensor
    products: Tensor


class Backward(Computation):
    """The dense formula, whose gradient is computed by hand."""

    own_gradient = True

    def __call__(self, call: AttentionCall) -> Any:
        check(call)
        inputs = tensors(call)
        return _with_backward().apply(self, call, tuple(inputs), *inputs.values())

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

    def run(self, gradient: Tensor, saved: Saved) -> Gradients:
        """The gradients of all inputs, in the query's dtype."""
        gradients: Gradients = dict.fromkeys(tensors(saved.call))
        weights, keep = self.weights(saved), self.keep(saved)
        d_output = self.output_gradient(gradient, saved)
        d_weights = self.weights_gradient(d_output, saved.value, keep)
        d_scores = self.scores_gradient(weights, d_weights, self.mean(weights, d_weights, saved))
        flow = Flow(d_scores, self.through_scores(d_scores, saved, gradients))
        gradients |= self.of_inputs(flow, weights * keep, d_output, saved)
        dtype = saved.call.query.dtype
        gradients = {name: None if each is None else each.to(dtype) for name, each in gradients.items()}
        delivered: Gradients = self.deliver(gradients, saved)
        return delivered

    def of_inputs(self, flow: Flow, kept_weights: Tensor, d_output: Tensor, saved: Saved) -> Gradients:
        """Of query, key and value, where they are wanted."""
        found: Gradients = {}
        if "query" in saved.wanted:
            found["query"] = self.query_gradient(flow, saved)
        if "key" in saved.wanted:
            found["key"] = self.gather(self.key_gradient(flow, saved), saved)
        if "value" in saved.wanted:
            found["value"] = self.gather(self.value_gradient(kept_weights, d_output, saved), saved)
        return found

    def through_scores(self, d_scores: Tensor, saved: Saved, gradients: Gradients) -> Tensor:
        """The gradient of the products, back through what features did to the scores."""
        for each in reversed(computed()):
            if each.score_gradient:
                d_scores = each.score_gradient(self, d_scores, saved, gradients)
        return d_scores

    def gather(self, gradient: Tensor, saved: Saved) -> Tensor:
        """The gradient of the keys or values as they were given."""
        for each in reversed(computed()):
            if each.source_gradient:
                gradient = each.source_gradient(self, gradient, saved)
        return gradient


def tensors(call: AttentionCall) -> dict[str, Tensor]:
    """The inputs that are tensors, by name."""
    options = {name: value for name, value in call.options.items() if isinstance(value, torch.Tensor)}
    return {"query": call.query, "key": call.key, "value": call.value, **options}


def ignoring(
    argument: str, off: Any, where: Callable[[AttentionCall], Any] = lambda call: True
) -> Callable[[Saved], Tensor]:
    """The mistake of a backward pass that ignores an argument: its weights are computed without it."""

    def weights(saved: Saved) -> Tensor:
        call = saved.call
        given = call[argument] is not None and call[argument] is not False and where(call)
        return forward_weights(call.but(**{argument: off}), saved.query, saved.key) if given else saved.weights

    return weights


def forward_weights(call: AttentionCall, query: Tensor, key: Tensor) -> Tensor:
    """The weights before dropout, of widened queries and keys that have the query's heads."""
    return Dense.softmax(correct.score(Dense.products(query, key), call, call.grid()), call)


@cache
def _with_backward() -> Any:
    """The function whose backward pass is a computation's own."""

    class WithBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, steps: Backward, call: AttentionCall, names: tuple[str, ...], *inputs: Tensor) -> Tensor:
            query, key, value = Dense.widen(call)
            key, value = correct.spread(key, value, call)
            weights = forward_weights(call, query, key)
            keep = multiplier(weights, call)
            wanted = frozenset(name for name, need in zip(names, ctx.needs_input_grad[3:], strict=True) if need)
            ctx.steps, ctx.names = steps, names
            ctx.saved = Saved(call, query, key, value, weights, keep, wanted)
            return ((weights * keep) @ value).to(call.query.dtype)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            with torch.no_grad():
                found = ctx.steps.run(gradient, ctx.saved)
            return (None, None, None, *(found[name] for name in ctx.names))

    return WithBackward


@dataclass
class Memory:
    """What a forward pass keeps for its backward pass."""

    call: AttentionCall
    state: Tensor
    """That of the random source before the forward pass."""


class Recomputed(Computation):
    """The dense formula, whose backward pass begins with what it has `kept`."""

    def __call__(self, call: AttentionCall) -> Any:
        check(call)
        inputs = tensors(call)
        return _recomputing().apply(self, call, tuple(inputs), *inputs.values())

    keep = staticmethod(Memory)  # (asked, state) → memory
    restore = staticmethod(lambda state: torch.set_rng_state(state))  # after the backward pass, the state before it
    deliver = staticmethod(lambda gradients, call: gradients)
    forget = staticmethod(lambda memory: None)  # once the backward pass has run

    def back(self, memory: Memory, gradient: Tensor, wanted: frozenset[str]) -> Gradients:
        """The gradients of the inputs that want one."""
        before = torch.get_rng_state()
        torch.set_rng_state(memory.state)
        with torch.enable_grad():
            call = renewed(memory.call, lambda tensor: tensor.detach().requires_grad_(tensor.is_floating_point()))
            again = correct(call)
        named = tensors(call)
        found = torch.autograd.grad(again, [named[name] for name in wanted], gradient, allow_unused=True)
        self.restore(before)
        gradients: Gradients = self.deliver(dict(zip(wanted, found, strict=True)), memory.call)
        self.forget(memory)
        return gradients


def renewed(call: AttentionCall, change: Callable[[Tensor], Tensor]) -> AttentionCall:
    """The call with all of its tensors changed."""
    options = {name: change(value) for name, value in call.options.items() if isinstance(value, torch.Tensor)}
    return replace(call.but(**options), query=change(call.query), key=change(call.key), value=change(call.value))


@cache
def _recomputing() -> Any:
    """The function whose backward pass is a computation's own."""

    class Recomputing(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, steps: Recomputed, call: AttentionCall, names: tuple[str, ...], *inputs: Tensor
        ) -> Tensor:
            ctx.steps, ctx.names = steps, names
            ctx.wanted = frozenset(name for name, need in zip(names, ctx.needs_input_grad[3:], strict=True) if need)
            ctx.memory = steps.keep(call, torch.get_rng_state())
            output: Tensor = correct(call)
            return output

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            found = ctx.steps.back(ctx.memory, gradient, ctx.wanted)
            return (None, None, None, *(found.get(name) for name in ctx.names))

    return Recomputing
