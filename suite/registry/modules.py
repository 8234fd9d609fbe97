"""A module with weights of its own as a function of `multi_head_attention`: each call sets its weights by their roles.

The suite draws the weights, so that expected values never depend on the module's numbers. A module is made for the
sizes of a call by its own constructor.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from attnsuite.cases.returned_weights import WEIGHTS_NAMES
from attnsuite.registry.declaration import Uncallable
from attnsuite.registry.layers import as_layer
from attnsuite.registry.roles import (
    ROLES,
    WEIGHTED,
    Forward,
    Roles,
    Sizes,
    constructor,
    forward_of,
    has_heads,
    lengths_of,
    recognise,
    refuse_quantised,
    refuse_shared,
    unmade,
)

LENGTH = 160
"""The longest sequence for which a module is made: cases have up to 129 keys."""
TRIAL = Sizes(heads=3, width=15, inputs=15, value_head=5, length=LENGTH)
"""The sizes of the trial, a call that shows how a module stores its weights: heads differ from a head's width."""
ITEMS, QUERIES, KEYS = 2, 3, 4
"""The other sizes of the trial, all different."""
EQUAL = 1e-8
"""The largest error, in float64, at which a module computes the formula in the trial."""
DRAWN = 1e-4
"""The largest difference of drawn weights from a document's, which prints four decimals."""
OUTPUTS = ("output", "out", "x", "y", "context", "context_vec", "attn_output")
"""The names of the output in a returned dictionary; without one of them it is the last entry."""
STEPS = {
    **{f"{letter}_feat": f"mapped_{role}" for letter, role in zip("qkv", ("query", "key", "value"), strict=True)},
    **{f"{letter}_split": f"split_{role}" for letter, role in zip("qkv", ("query", "key", "value"), strict=True)},
    "scores": "scores",
    "score": "scores",
    "x_raw": "heads",
    "x_rsh1": "heads_back",
    "x_rsh2": "merged",
    **dict.fromkeys(WEIGHTS_NAMES, "weights"),
}
"""The contract's steps by the names that dictionaries of modules have for them, in small letters."""
MASKS: dict[str, Callable[[Tensor], Tensor]] = {
    "b h l s": lambda mask: mask,
    "b l s": lambda mask: _only(mask, 1),
    "b s": lambda mask: _only(_only(mask, 1), 1),
}
"""The forms in which modules take masks, made from a mask of four axes."""
Weights = Mapping[str, Tensor]


def _only(mask: Tensor, axis: int) -> Tensor:
    """The mask without an axis of size 1. NotImplementedError for another size."""
    if mask.shape[axis] != 1:
        raise NotImplementedError("the module's mask has no axis for that")
    return mask.squeeze(axis)


def owns_weights(target: Any) -> bool:
    """Whether this is a module with parameters, or a class of modules that has some or needs arguments."""
    if isinstance(target, nn.Module):
        return any(True for _ in target.parameters())
    if not (isinstance(target, type) and issubclass(target, nn.Module)):
        return False
    try:
        return owns_weights(target())
    except Exception:  # it needs arguments, or its defaults contradict each other
        return True


def literal_arguments(text: str, name: str) -> tuple[list[Any], dict[str, Any]]:
    """The arguments in `(128, 4)`. Raises `Uncallable` unless they are literals."""
    try:
        call = ast.parse(f"f{text}", mode="eval").body
        if not isinstance(call, ast.Call):
            raise ValueError
        return [ast.literal_eval(argument) for argument in call.args], {
            str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords
        }
    except (ValueError, SyntaxError):
        expected = "numbers, strings, True, False or None, as (128, 4) or (width=128, heads=4)"
        raise Uncallable(f"the arguments of {name} are {text}; expected {expected}") from None


def _given(target: Any, name: str, arguments: str) -> dict[str, Any]:
    """The arguments of a constructor: as written after a class, or the attributes of an instance with their names."""
    made = target if isinstance(target, type) else type(target)
    signature = inspect.signature(made)
    batch_first = {"batch_first": True} if "batch_first" in signature.parameters else {}
    if arguments:
        positional, named = literal_arguments(arguments, name)
        try:
            bound = signature.bind_partial(*positional, **named)
        except TypeError as error:
            raise Uncallable(f"{name}{arguments}: {error}; it is made as {name}{signature}") from None
        return {**bound.arguments, **batch_first}
    values = (
        {} if target is made else {parameter: getattr(target, parameter, None) for parameter in signature.parameters}
    )
    values = {parameter: value.p if isinstance(value, nn.Dropout) else value for parameter, value in values.items()}
    plain = {parameter: value for parameter, value in values.items() if isinstance(value, int | float | str)}
    return plain | batch_first


def as_function(
    target: Any, name: str, arguments: str = "", weights: Mapping[str, str] | None = None, contract: str = WEIGHTED
) -> tuple[Callable[..., Any], str]:
    """A function of the contract that calls modules of this class, or of the class of this module; a line about it.

    `arguments` are those that the user writes after a class, `weights` the layers that the user names by role. Raises
    `Uncallable` where roles, arguments or inputs are not clear.
    """
    made = target if isinstance(target, type) else type(target)
    if contract != WEIGHTED:
        return as_layer(made, name, contract, _given(target, name, arguments), weights or {})
    maker = Maker(made, name, constructor(made, name, _given(target, name, arguments)))
    trial = Trial(maker, has_heads(made), weights or {})
    adapter, notes = trial.result()
    by_place, by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(parameter, by_place) for parameter in INPUTS]
    parameters += [inspect.Parameter(parameter, by_name, default=None) for parameter in adapter.options(trial.steps)]

    def multi_head_attention(*inputs: Tensor, **options: Any) -> Any:
        return adapter(*inputs, **options)

    multi_head_attention.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    if hasattr(made, "__attnsuite__"):
        multi_head_attention.__attnsuite__ = made.__attnsuite__  # type: ignore[attr-defined]
    says = f"{name} is tested as {WEIGHTED} in evaluation mode; tests set its weights: {adapter.roles.says}"
    return multi_head_attention, "; ".join([says, *notes])


INPUTS = ("query", "key", "value", "w_query", "w_key", "w_value")


@dataclass
class Maker:
    """Modules of a class in evaluation mode, each made once for its sizes and its dtype."""

    made: type
    name: str
    arguments: Callable[[Sizes], dict[str, Any]]
    per_head: bool = False
    """Whether the constructor's width is that of one head."""
    modules: dict[Any, nn.Module] = field(default_factory=dict)

    def new(self, sizes: Sizes) -> nn.Module:
        """A new module. Raises as its constructor does."""
        width = sizes.width // sizes.heads if self.per_head else sizes.width
        module: nn.Module = self.made(**self.arguments(replace(sizes, width=width)))
        return module.eval()

    def module(self, sizes: Sizes, like: Tensor, inputs: Mapping[str, Any], fresh: bool = False) -> nn.Module:
        """The module of these sizes, in the dtype and on the device of a tensor; a lazy one has seen these inputs."""
        key = sizes, like.dtype, like.device
        if fresh or key not in self.modules:
            module = self.new(sizes).to(like.device, like.dtype)
            if any(map(is_lazy, module.parameters())):
                with torch.no_grad():
                    module(**inputs)
            self.modules[key] = module
        return self.modules[key]


@dataclass(frozen=True)
class Adapter:
    """Calls of the contract as calls of a module."""

    maker: Maker
    roles: Roles
    forward: Forward
    mask: str = "b h l s"
    """The form of its mask."""
    turned: bool = False
    """Whether square parameters that are no layer's are stored (out, in), and those of a layer (in, out)."""
    by_head: bool = False
    """Whether a fused matrix has queries, keys and values of one head after the other."""
    causal: bool = False
    """Whether the module always hides later positions."""
    by_item: bool = False
    """Whether the module takes one item, without an axis for the batch."""
    several_heads: bool = True
    """Whether the module may have more heads than one."""

    def options(self, steps: frozenset[str]) -> list[str]:
        """The contract's optional parameters that the module has."""
        has = {letter for role in self.roles.biases for letter in role}
        biases = [f"b_{role.removeprefix('w_')}" for short, role in ROLES.items() if short in has]
        masked = ["attn_mask"] * bool(self.forward.mask or self.forward.lengths)
        causal = ["is_causal"] * bool(masked or self.forward.is_causal or self.causal)
        output = ["w_output"] * ("o" in self.roles.matrices)
        shown = ["need_weights"] * ("weights" in steps) + ["step"] * bool(steps - {"weights"})
        return ["num_heads", *output, *biases, *masked, *causal, *shown, "drawn"]

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *matrices: Tensor, num_heads: int,
        w_output: Tensor | None = None, need_weights: bool = False, step: str = "", drawn: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        """The module's output for these inputs and weights; with attention weights or a step, if they are requested.

        Raises NotImplementedError for a call that the module cannot express.
        """
        w_query, w_key, w_value = matrices
        sizes = Sizes(num_heads, w_query.shape[1], w_query.shape[0], w_value.shape[1] // max(num_heads, 1), LENGTH)
        masks = options.pop("attn_mask", None), options.pop("is_causal", False)
        named = self.inputs(query, key, value, num_heads, *masks)
        module = self.maker.module(sizes, query, named, fresh=drawn)
        if "o" in self.roles.matrices and w_output is None:
            w_output = torch.eye(w_value.shape[1]).to(query)
        values = dict(zip("qkvo", (w_query, w_key, w_value, w_output), strict=True))
        biases = {short: options.get(f"b_{role[2:]}") for short, role in ROLES.items()}
        weights = self.weights(module, values, biases, num_heads)
        if drawn:
            _compare_drawn(module, weights)
            weights = {}
        output, steps = self.called(module, weights, named)
        if step and step not in steps:
            raise NotImplementedError(f"the module returns no {step}")
        return (output, {step: steps[step]}) if step else (output, steps["weights"]) if need_weights else output

    def called(self, module: nn.Module, weights: Weights, named: Mapping[str, Any]) -> tuple[Any, dict[str, Tensor]]:
        """The output and the steps of a module with these weights."""
        if not self.by_item:
            return parts(functional_call(module, dict(weights), (), dict(named)))
        tensors = {name: tensor for name, tensor in named.items() if isinstance(tensor, Tensor)}
        items = [{**named, **dict(zip(tensors, item, strict=True))} for item in zip(*tensors.values(), strict=True)]
        if not items:
            raise NotImplementedError("the module takes one item at a time, and the batch is empty")
        return torch.stack([parts(functional_call(module, dict(weights), (), item))[0] for item in items]), {}

    # Inputs

    def inputs(
        self, query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None = None, is_causal: bool = False
    ) -> dict[str, Any]:
        """The arguments of `forward`. NotImplementedError for inputs or masks that it does not take."""
        meanings = {*self.forward.inputs.values()}
        if heads != 1 and not self.several_heads:
            raise NotImplementedError("the module has one head")
        if "x" in meanings and not (_same(query, key) and _same(key, value)):
            raise NotImplementedError("the module takes one input: queries, keys and values are of one sequence")
        if "key and value" in meanings and not _same(key, value):
            raise NotImplementedError("the module takes keys and values as one input")
        if self.causal and not is_causal:
            raise NotImplementedError("the module always hides later positions")
        by_meaning = {"x": query, "query": query, "key": key, "value": value, "key and value": key}
        named: dict[str, Any] = {parameter: by_meaning[meaning] for parameter, meaning in self.forward.inputs.items()}
        named |= dict.fromkeys(filter(None, (self.forward.mask, self.forward.lengths)))
        if self.maker.made is nn.MultiheadAttention:
            named |= {"need_weights": True, "average_attn_weights": False}
        if is_causal and not self.causal:
            if self.forward.is_causal and self.maker.made is not nn.MultiheadAttention:
                named[self.forward.is_causal] = True
            else:
                mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool, device=query.device).tril()
                mask = mask ^ (self._conventions.get("bool_mask") == "may_not")
        if mask is not None:
            mask = mask.expand(*(1, 1)[: 4 - mask.dim()], *mask.shape) if mask.dim() in (2, 4) else mask
            named |= self._masked(mask, (len(query), heads, query.shape[1], key.shape[1]))
        return named

    @property
    def _conventions(self) -> Mapping[str, Any]:
        declared = getattr(self.maker.made, "__attnsuite__", None)
        return declared["conventions"] if isinstance(declared, dict) else {}

    def _masked(self, mask: Tensor, shape: tuple[int, ...]) -> dict[str, Tensor]:
        """The argument of `forward` for a mask of four axes."""
        items, heads, queries, keys = shape
        if self.maker.made is nn.MultiheadAttention:  # it says True for hidden keys
            return {"attn_mask": ~mask.expand(items, heads, queries, keys).flatten(0, 1)}
        if self.forward.mask:
            whole = mask if self.mask == "b h l s" else mask.expand(items, *mask.shape[1:])
            return {self.forward.mask: MASKS[self.mask](whole)}
        rows = _only(mask, 1).expand(items, -1, keys)  # b l s, or b 1 s for all queries
        return {self.forward.lengths: lengths_of(rows, queries)}

    # Weights

    def weights(
        self, module: nn.Module, values: Mapping[str, Tensor | None], biases: Mapping[str, Tensor | None], heads: int
    ) -> dict[str, Tensor]:
        """The values of the module's parameters by name. Missing biases are 0."""
        assigned: dict[str, Tensor] = {}
        for role, names in self.roles.matrices.items():
            columns = [value for short in role if (value := values[short]) is not None]
            for parameter, part in self._parts(names, self._fused(columns, heads), heads):
                assigned[parameter] = self._stored(part, parameter, module)
        for role, names in self.roles.biases.items():
            zeros = [values[short].new_zeros(values[short].shape[1]) for short in role]  # type: ignore[union-attr]
            rows = [zero if (bias := biases[short]) is None else bias for short, zero in zip(role, zeros, strict=True)]
            for parameter, part in self._parts(names, self._fused([row[None] for row in rows], heads), heads):
                assigned[parameter] = part.reshape(module.get_parameter(parameter).shape)
        return assigned

    @staticmethod
    def _parts(names: Sequence[str], whole: Tensor, heads: int) -> Iterator[tuple[str, Tensor]]:
        """The columns of each parameter: all of the only one, or those of a head for each head's."""
        if len(names) == 1:
            return iter([(names[0], whole)])
        by_head = [re.sub(r"\.0\.", f".{head}.", names[0], count=1) for head in range(heads)]
        return zip(by_head, whole.chunk(heads, 1), strict=True)

    def _fused(self, columns: list[Tensor], heads: int) -> Tensor:
        if len(columns) == 1:
            return columns[0]
        if len({len(column) for column in columns}) > 1:
            raise NotImplementedError("the module has one matrix for several inputs, and here their widths differ")
        if self.by_head:
            return torch.stack([column.unflatten(1, (heads, -1)) for column in columns], 2).flatten(1)
        return torch.cat(columns, 1)

    def _stored(self, value: Tensor, name: str, module: nn.Module) -> Tensor:
        """A weight (in, out) as the module stores it. NotImplementedError where its shape is another."""
        shape = tuple(module.get_parameter(name).shape)
        owner = module.get_submodule(name.rpartition(".")[0])
        is_turned = isinstance(owner, nn.Linear) or (name.endswith(".weight") != self.turned)
        ways = [value.T, value] if is_turned else [value, value.T]
        if len(shape) > 2:
            split = value.unflatten(1, (shape[0] if shape[0] != value.shape[0] else shape[1], -1))
            ways = [split.transpose(0, 1), split]
        for way in ways:
            if tuple(way.shape) == shape:
                return way
        raise NotImplementedError(f"{name} has shape {shape}, and the test has a weight {tuple(value.shape)} for it")


def _same(first: Tensor, second: Tensor) -> bool:
    return first is second or (first.shape == second.shape and torch.equal(first, second))


def _compare_drawn(module: nn.Module, weights: Weights) -> None:
    """NotImplementedError where the module has drawn other weights than these."""
    for name, expected in weights.items():
        if (module.get_parameter(name) - expected).abs().max() > DRAWN:
            raise NotImplementedError(f"{name} is drawn otherwise than the document's under its seed")


def parts(returned: Any) -> tuple[Any, dict[str, Tensor]]:
    """The output in what a module returns, and the steps of the contract in its dictionary, or in its second place."""
    if isinstance(returned, dict) and returned:
        named = {str(name).lower(): value for name, value in returned.items()}
        output = next((named[key] for key in OUTPUTS if key in named), [*named.values()][-1])
        return output, {STEPS[key]: value for key, value in named.items() if key in STEPS}
    if isinstance(returned, tuple | list) and len(returned) > 1 and isinstance(returned[1], Tensor):
        return returned[0], {"weights": returned[1]}
    return (returned[0] if isinstance(returned, tuple | list) and returned else returned), {}


class Trial:
    """One call in float64 that shows how a module stores its weights and takes its mask.

    Storage is free, the formula is not: the way is chosen in which the module computes the formula, and the first
    where it never does.
    """

    def __init__(self, maker: Maker, has_heads: bool, written: Mapping[str, str]) -> None:
        self.maker, self.sizes = maker, TRIAL if has_heads else replace(TRIAL, heads=1, value_head=TRIAL.width)
        self.steps: frozenset[str] = frozenset()
        width = self.sizes.width
        drawn = partial(torch.randn, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        self.call = (drawn(ITEMS, QUERIES, width), drawn(ITEMS, KEYS, width), drawn(ITEMS, KEYS, width))
        self.values = {short: drawn(width, width) / 2 for short in ROLES}
        self.visible = torch.tensor([[True, False, True, True], [False, True, True, False]])[:, None, None]
        self.error: Exception | None = None
        self.module, self.forward = self._made()
        shapes = {
            name: tuple(parameter.shape) for name, parameter in self.module.named_parameters(remove_duplicate=False)
        }
        refuse_shared(self.module, maker.name)
        self.roles = recognise(shapes, maker.name, written)
        self._find_width(shapes)

    def _made(self) -> tuple[nn.Module, Forward]:
        try:
            module = self.maker.new(self.sizes).double()
        except Exception as error:
            raise Uncallable(self._raises(error)) from None
        refuse_quantised(module, self.maker.name)
        forward = forward_of(module, self.maker.name)
        query, key, value = self.call
        first, last = (key, key) if "x" in forward.inputs.values() else (query, value)
        self.call = (first, key, key if "key and value" in forward.inputs.values() else last)
        self._fill_lazy(module, forward)
        return module, forward

    def _fill_lazy(self, module: nn.Module, forward: Forward) -> None:
        """Call a module once whose parameters get their shapes in the first call."""
        if any(map(is_lazy, module.parameters())):
            try:
                module(**Adapter(self.maker, Roles({}, {}), forward).inputs(*self.call, self.sizes.heads))
            except Exception as error:
                raise Uncallable(self._raises(error)) from None

    def _raises(self, error: Exception) -> str:
        return unmade(self.maker.name, self.maker.arguments(self.sizes), error)

    def _find_width(self, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Whether the constructor's width is that of one head: heads side by side then are too wide."""
        names = self.roles.matrices.get("q", ())
        if len(names) > 1 and shapes[names[0]] == (self.sizes.width, self.sizes.width):
            self.maker.per_head = True
            self.module = self.maker.new(self.sizes).double()

    def result(self) -> tuple[Adapter, list[str]]:
        """The adapter, and what is to be said about the module."""
        several = self.sizes.heads > 1
        usual = Adapter(self.maker, self.roles, self.forward, causal=self._looks_causal(), several_heads=several)
        chosen = next(filter(self._computes_formula, self._ways(usual)), usual)
        output, steps = self._run(chosen)
        if output is None:
            output, steps = self._run(chosen := replace(chosen, by_item=True))
        if output is None and self.error is not None:
            raise Uncallable(self._raises(self.error))
        shapes = {"weights": (ITEMS, self.sizes.heads, self.call[0].shape[1], KEYS)}
        self.steps = frozenset(step for step, tensor in steps.items() if tensor.shape == shapes.get(step, tensor.shape))
        if self.forward.mask and self.maker.made is not nn.MultiheadAttention:
            chosen = replace(chosen, mask=next(self._forms(chosen), "b h l s"))
        return chosen, [*self._notes(chosen)]

    def _ways(self, usual: Adapter) -> Iterator[Adapter]:
        """The ways in which the module may store its weights and take its inputs."""
        every = [name for names in self.roles.matrices.values() for name in names]
        free = not all(isinstance(self.module.get_submodule(name.rpartition(".")[0]), nn.Linear) for name in every)
        fused = any(len(role) > 1 for role in self.roles.matrices)
        both = False, True
        for turned, by_head, causal, by_item in itertools.product(both[: 1 + free], both[: 1 + fused], both, both):
            yield replace(usual, turned=turned, by_head=by_head, causal=causal, by_item=by_item)

    def _looks_causal(self) -> bool:
        """Whether names and buffers show that a module always hides later positions."""
        if self.forward.mask or self.forward.lengths or self.forward.is_causal:
            return False
        square = any(len(buffer.shape) > 1 and buffer.shape[-1] == buffer.shape[-2] for buffer in self.module.buffers())
        return square or "causal" in self.maker.made.__name__.lower()

    def _forms(self, adapter: Adapter) -> Iterator[str]:
        """The forms of a mask with which the module computes the formula; then those that it takes."""
        taken = []
        for form in MASKS:
            way = replace(adapter, mask=form)
            for mask in (self.visible, ~self.visible):  # its polarity is a convention, which is declared
                output, _ = self._run(way, mask)
                taken += [form] * (output is not None)
                if _near(output, self._expected(adapter.causal, self.visible)):
                    yield form
        yield from taken

    def _run(self, adapter: Adapter, mask: Tensor | None = None) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The output and the steps of the trial; None where the call raises."""
        try:
            named = adapter.inputs(*self.call, self.sizes.heads, mask, is_causal=adapter.causal)
            weights = adapter.weights(self.module, self.values, dict.fromkeys(ROLES), self.sizes.heads)
            return adapter.called(self.module, weights, named)
        except Exception as error:
            self.error = error
            return None, {}

    def _computes_formula(self, adapter: Adapter) -> bool:
        return _near(self._run(adapter)[0], self._expected(adapter.causal))

    def _expected(self, causal: bool, mask: Tensor | None = None) -> Tensor:
        """The formula with the trial's weights."""
        query, key, value = (
            (x @ self.values[short]).unflatten(-1, (self.sizes.heads, -1)).transpose(1, 2)
            for x, short in zip(self.call, "qkv", strict=True)
        )
        scores = query @ key.mT / query.shape[-1] ** 0.5
        scores = scores.masked_fill(~mask, -torch.inf) if mask is not None else scores
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        merged = (scores.masked_fill(hidden & causal, -torch.inf).softmax(-1) @ value).transpose(1, 2).flatten(2)
        expected: Tensor = merged @ self.values["o"] if "o" in self.roles.matrices else merged
        return expected

    def _notes(self, adapter: Adapter) -> Iterator[str]:
        """What is unusual about the module, each in words."""
        if adapter.causal:
            yield "it always hides later positions, so only tests with is_causal run"
        if {*self.forward.inputs.values()} == {"x"}:
            yield "forward takes one sequence, so only self-attention is tested"
        first, second = (self._run(adapter)[0] for _ in range(2))
        if not _near(first, second):
            yield "two equal calls in evaluation mode differ: something is random, as dropout that never ends"
        if unused := self._unused(adapter):
            yield f"forward does not use {', '.join(unused)}"

    def _unused(self, adapter: Adapter) -> list[str]:
        """The parameters on which the output does not depend."""
        with torch.enable_grad():
            weights = adapter.weights(self.module, self.values, dict.fromkeys(ROLES), self.sizes.heads)
            leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
            named = adapter.inputs(*self.call, self.sizes.heads, is_causal=adapter.causal)
            output, _ = adapter.called(self.module, leaves, named)
            gradients = torch.autograd.grad(output.sum(), [*leaves.values()], allow_unused=True)
        used: dict[str, Any] = dict(zip(leaves, gradients, strict=True))
        return [name for name, gradient in used.items() if gradient is None]


def _near(actual: Any, expected: Tensor | None) -> bool:
    if not isinstance(actual, Tensor) or expected is None or actual.shape != expected.shape:
        return False
    return bool((actual - expected).abs().max() <= EQUAL * (1 + expected.abs().max()))
