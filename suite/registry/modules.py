"""A module with weights of its own as a function of `multi_head_attention`: each call sets its weights by their roles.

The suite draws the weights, so that expected values never depend on the module's numbers. A module is made for the
sizes of a call by its own constructor.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.parameter import is_lazy

from attnsuite.cases.returned_weights import WEIGHTS_NAMES
from attnsuite.contracts.blocks.multi_head_attention.computation import KEY_MAPS, group_of_keys
from attnsuite.contracts.blocks.multi_head_attention.mutants import DROPPED, DROPPED_SEED
from attnsuite.registry.declaration import Uncallable, declared_by
from attnsuite.registry.layers import RANDOM, as_layer, as_parameters, assign, differ, near, shown, unused, values_of
from attnsuite.registry.roles import (
    EMPTY_BATCH,
    ROLES,
    WEIGHTED,
    constructor,
    forward_of,
    has_heads,
    is_quantised,
    layer_of,
    lengths_of,
    refuse_quantised,
    roles_of_layers,
    unmade,
)

LENGTH = 160
"""The longest sequence for which a module is made: cases have up to 129 keys."""


class Sizes(NamedTuple):
    """The sizes of a call for which a module is made."""

    heads: int
    width: int
    """Of all heads together."""
    inputs: int
    value_head: int
    length: int
    key_heads: int = 1
    dropout: float = DROPPED


TRIAL = Sizes(heads=3, width=15, inputs=15, value_head=5, length=LENGTH, key_heads=3)
"""The sizes of the trial, a call that shows how a module stores its weights: heads differ from a head's width."""
ITEMS, QUERIES, KEYS = 2, 3, 4
"""The other sizes of the trial, all different."""
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
    "added": lambda mask: mask,
}
"""The forms in which modules take masks, made from a mask of four axes; an added one then becomes 0 and −∞."""
Weights = Mapping[str, Tensor]
BIASES = tuple(f"b{weight[1:]}" for weight in ROLES.values())
"""The contract's biases."""
NUMBER = re.compile(r"\.\d+\.")


def _only(mask: Tensor, axis: int) -> Tensor:
    """The mask without an axis of size 1. NotImplementedError for another size."""
    if mask.shape[axis] != 1:
        raise NotImplementedError("the module's mask has no axis for that")
    return mask.squeeze(axis)


def owns_weights(target: Any) -> bool:
    """Whether this is a module with parameters, or a class of modules that has some or needs arguments."""
    if isinstance(target, nn.Module):
        return any(True for _ in target.parameters()) or is_quantised(target)
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
    made, given = target if isinstance(target, type) else type(target), _given(target, name, arguments)
    if made is not target:
        refuse_quantised(target, name)
    if contract != WEIGHTED:
        return as_layer(made, name, contract, given, weights or {})
    heads = MultiHeadAttention(made, name, given, weights or {})
    return as_parameters(heads, INPUTS, heads.options(), made), "; ".join(heads.notes())


INPUTS = ("query", "key", "value", "w_query", "w_key", "w_value")


@dataclass(frozen=True)
class Way:
    """How a module stores its weights and takes its inputs."""

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


class MultiHeadAttention:
    """Calls of the contract as calls of modules of a class, in the way that a trial shows: one call in float64.

    Storage is free, the formula is not: the way is chosen in which the module computes the formula, and the first
    where it never does.
    """

    def __init__(self, made: type, name: str, given: Mapping[str, Any], written: Mapping[str, str]) -> None:
        self.made, self.name, self.way = made, name, Way()
        self.error: Exception | None = None
        self.arguments = constructor(made, name, given)
        self.sizes = TRIAL if has_heads(made) else TRIAL._replace(heads=1, value_head=TRIAL.width, key_heads=1)
        self.per_head = False  # whether the constructor's width is that of one head
        self.modules: dict[Any, nn.Module] = {}
        self.is_random = False  # whether two equal calls differ
        width = self.sizes.width
        drawn = partial(torch.randn, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        query, key, value = drawn(ITEMS, QUERIES, width), drawn(ITEMS, KEYS, width), drawn(ITEMS, KEYS, width)
        self.values = {role: drawn(width, width) / 2 for role in ROLES.values()}
        self.visible = torch.tensor([[True, False, True, True], [False, True, True, False]])[:, None, None]
        with self._explained():
            self.module = self._new(self.sizes).double()
        refuse_quantised(self.module, name)
        self.forward = forward_of(self.module, name)
        self.takes = frozenset(self.forward.values())
        first, last = (key, key) if "x" in self.takes else (query, value)
        self.call = (first, key, key if "key and value" in self.takes else last)
        named = self.inputs(*self.call, self.sizes.heads)
        with self._explained(named):
            self._fill_lazy(self.module, named)
        self.names = self._names(written)
        self.steps = self._find_way()
        self.is_random = differ(self._run(self.way)[0], self._run(self.way)[0])

    def _new(self, sizes: Sizes) -> nn.Module:
        """A new module in evaluation mode. Raises as its constructor does."""
        return self.made(**self._arguments(sizes)).eval()  # type: ignore[no-any-return]

    def _arguments(self, sizes: Sizes) -> dict[str, Any]:
        head = sizes.width // max(sizes.heads, 1)
        return self.arguments({**sizes._asdict(), "head": head, **({"width": head} if self.per_head else {})})

    @contextmanager
    def _explained(self, inputs: Mapping[str, Any] | None = None) -> Iterator[None]:
        """Raise an error of the constructor, or of `forward` with these inputs, as `Uncallable`, in one line."""
        try:
            yield
        except Exception as error:
            raise Uncallable(unmade(self.name, self._arguments(self.sizes), error, inputs)) from None

    @staticmethod
    def _fill_lazy(module: nn.Module, inputs: Mapping[str, Any]) -> None:
        """Call a module once whose parameters get their shapes in the first call."""
        if any(map(is_lazy, module.parameters())):
            with torch.no_grad():
                module(**inputs)

    def _names(self, written: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """The contract's weights by parameter. Those of numbered heads have one entry, with a * for the number."""
        shapes = {parameter: tuple(tensor.shape) for parameter, tensor in self.module.named_parameters()}
        by_layer = roles_of_layers({parameter: layer_of(parameter) for parameter in shapes}, self.name, written)
        groups: dict[str, list[tuple[int, ...]]] = {}
        for parameter, shape in shapes.items():
            starred = NUMBER.sub(".*.", parameter, count=1) if by_layer[layer_of(parameter)] else parameter
            groups.setdefault(starred, []).append(shape)
        width = self.sizes.width
        if not self.per_head and any(group[1:] and group[0] == (width, width) for group in groups.values()):
            self.per_head = True  # side by side they would be too wide
            self.module = self._new(self.sizes).double()
            return self._names(written)
        together = {name: _together(group) for name, group in groups.items()}
        weights = dict.fromkeys(ROLES.values(), (width, width)) | dict.fromkeys(BIASES, (width,))
        hint = "; say --weights q=NAME,k=NAME,v=NAME,o=NAME where it is a multi-head attention, else --contract"
        return assign(together, weights, self.name, written, ("w_output", *BIASES), hint)

    @property
    def own(self) -> frozenset[str]:
        """The contract's weights that the module has."""
        return frozenset(weight for own in self.names.values() for weight in own)

    # The contract's function

    def options(self) -> list[str]:
        """The contract's optional parameters that the module has."""
        masked = ["attn_mask"] * bool(self.takes & {"mask", "lengths"})
        causal = ["is_causal"] * bool(masked or "is_causal" in self.takes or self.way.causal)
        steps = ["need_weights"] * ("weights" in self.steps) + ["step"] * bool(self.steps - {"weights"})
        optional = [weight for weight in ("w_output", *BIASES) if weight in self.own]
        return ["num_heads", *optional, *masked, *causal, *steps, "drawn"]

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, *matrices: Tensor, num_heads: int,
        w_output: Tensor | None = None, need_weights: bool = False, step: str = "", drawn: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        """The module's output for these inputs and weights; with attention weights or a step, if they are requested.

        Raises NotImplementedError for a call that the module cannot express.
        """
        w_query, w_key, w_value = matrices
        group = group_of_keys(w_key, num_heads)
        value_head = w_value.shape[1] // max(num_heads, 1)
        sizes = Sizes(num_heads, w_query.shape[1], w_query.shape[0], value_head, LENGTH, num_heads // group)
        masks = options.pop("attn_mask", None), options.pop("is_causal", False)
        named = self.inputs(query, key, value, num_heads, *masks)
        place = sizes, query.dtype, query.device
        if drawn or place not in self.modules:
            self.modules[place] = self._new(sizes).to(query.device, query.dtype)
            self._fill_lazy(self.modules[place], named)
        module = self.modules[place]
        if w_output is None and "w_output" in self.own:
            w_output = torch.eye(w_value.shape[1]).to(query)
        given = dict(zip(ROLES.values(), (w_query, w_key, w_value, w_output), strict=True))
        weights = self.weights(module, {**given, **options}, num_heads, group)
        if drawn:
            _compare_drawn(module, weights)
            weights = {}
        try:
            output, steps = self._called(module, weights, named)
        except (RuntimeError, IndexError) as error:
            if len(query) or isinstance(error, NotImplementedError):
                raise
            raise NotImplementedError(f"{EMPTY_BATCH}: {error}") from None
        if masks[0] is not None and _is_nan_in_empty_rows_alone(output, masks[0] ^ self._hides_ones()):
            raise NotImplementedError("the module gives NaN to a query that sees no key")
        if step and step not in steps:
            raise NotImplementedError(f"the module returns no {step}")
        return (output, {step: steps[step]}) if step else (output, steps["weights"]) if need_weights else output

    def _called(self, module: nn.Module, weights: Weights, named: Mapping[str, Any]) -> tuple[Any, dict[str, Tensor]]:
        """The output and the steps of a module with these weights; what it drops depends on a seed."""
        with torch.random.fork_rng(devices=[], enabled=self.is_random):
            if self.is_random:
                torch.manual_seed(DROPPED_SEED)
            return self._output(module, weights, named)

    def _output(self, module: nn.Module, weights: Weights, named: Mapping[str, Any]) -> tuple[Any, dict[str, Tensor]]:
        if not self.way.by_item:
            return parts(functional_call(module, dict(weights), (), dict(named)))
        tensors = {name: tensor for name, tensor in named.items() if isinstance(tensor, Tensor)}
        items = [{**named, **dict(zip(tensors, item, strict=True))} for item in zip(*tensors.values(), strict=True)]
        if not items:
            raise NotImplementedError("the module takes one item at a time, and the batch is empty")
        return torch.stack([parts(functional_call(module, dict(weights), (), item))[0] for item in items]), {}

    def inputs(
        self, query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None = None, is_causal: bool = False
    ) -> dict[str, Any]:
        """The arguments of `forward`. NotImplementedError for inputs or masks that it does not take."""
        if heads != 1 == self.sizes.heads:
            raise NotImplementedError("the module has one head")
        if "x" in self.takes and not (_same(query, key) and _same(key, value)):
            raise NotImplementedError("the module takes one input: queries, keys and values are of one sequence")
        if "key and value" in self.takes and not _same(key, value):
            raise NotImplementedError("the module takes keys and values as one input")
        if self.way.causal and not is_causal:
            raise NotImplementedError("the module always hides later positions")
        is_torch = self.made is nn.MultiheadAttention
        given: dict[str, Any] = {"x": query, "query": query, "key": key, "value": value, "key and value": key}
        given |= {"mask": None, "lengths": None}
        if is_causal and not self.way.causal:
            if "is_causal" in self.takes and not is_torch:
                given["is_causal"] = True
            else:
                mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool, device=query.device).tril()
                mask = mask ^ self._hides_ones()
        if mask is not None:
            mask = mask.expand(*(1, 1)[: 4 - mask.dim()], *mask.shape) if mask.dim() in (2, 4) else mask
            given |= self._masked(mask, (len(query), heads, query.shape[1], key.shape[1]))
            if self.way.mask == "added":
                given["mask"] = query.new_zeros(given["mask"].shape).masked_fill(~given["mask"], -torch.inf)
        named = {parameter: given[meaning] for parameter, meaning in self.forward.items() if meaning in given}
        return {**named, **({"need_weights": True, "average_attn_weights": False} if is_torch else {})}

    def _hides_ones(self) -> bool:
        """Whether True in a mask is declared to hide."""
        return bool(declared_by(self.made).get("conventions", {}).get("bool_mask") == "may_not")

    def _masked(self, mask: Tensor, shape: tuple[int, ...]) -> dict[str, Tensor]:
        """The arguments of `forward`, by meaning, for a mask of four axes."""
        items, heads, queries, keys = shape
        if self.made is nn.MultiheadAttention:  # it says True for hidden keys
            return {"mask": ~mask.expand(items, heads, queries, keys).flatten(0, 1)}
        if "mask" in self.takes:
            whole = mask if self.way.mask == "b h l s" else mask.expand(items, *mask.shape[1:])
            return {"mask": MASKS[self.way.mask](whole)}
        rows = _only(mask, 1).expand(items, -1, keys)  # b l s, or b 1 s for all queries
        return {"lengths": lengths_of(rows, queries)}

    def weights(self, module: nn.Module, given: Mapping[str, Any], heads: int, group: int = 1) -> dict[str, Tensor]:
        """The values of the module's parameters by name. Missing biases are 0.

        A module with fewer heads of keys gets one of each `group` of heads, whose keys and values are equal.
        """
        matrices = {bias: given[f"w{bias[1:]}"] for bias in BIASES if bias in self.own}
        zeros = {bias: matrix.new_zeros(matrix.shape[1]) for bias, matrix in matrices.items()}
        named = {**zeros, **{name: tensor for name, tensor in given.items() if tensor is not None}}
        if group > 1:
            keys = {name: named[name].unflatten(-1, (heads, -1))[..., ::group, :] for name in KEY_MAPS & {*named}}
            fewer = {**named, **{name: columns.flatten(-2) for name, columns in keys.items()}}
            named = fewer if self._is_as_narrow(module, fewer) else named
        way = self.way
        return values_of(module, named, self.names, heads=heads, by_head=way.by_head, turned=way.turned)

    def _is_as_narrow(self, module: nn.Module, weights: Weights) -> bool:
        """Whether the module's parameter of keys has the size of these weights."""
        (parameter, own), *_ = ((parameter, own) for parameter, own in self.names.items() if "w_key" in own)
        return module.get_parameter(parameter.replace("*", "0")).numel() == sum(weights[name].numel() for name in own)

    # The trial

    def _find_way(self) -> frozenset[str]:
        """Choose the way, and return the steps of the contract that the module returns."""
        usual = Way(causal=self._looks_causal())
        chosen = next((way for way in self._ways(usual) if near(self._run(way)[0], self._expected(way.causal))), usual)
        output, steps = self._run(chosen)
        if output is None and self.error is not None:
            error = self.error  # of a batch, which most modules take
            output, steps = self._run(chosen := replace(chosen, by_item=True))
            if output is None:
                inputs = self.inputs(*self.call, self.sizes.heads, is_causal=usual.causal)
                raise Uncallable(unmade(self.name, self._arguments(self.sizes), error, inputs))
        if "mask" in self.takes and self.made is not nn.MultiheadAttention:
            chosen = replace(chosen, mask=next(self._forms(chosen), "b h l s"))
        self.way = chosen
        shapes = {"weights": (ITEMS, self.sizes.heads, self.call[0].shape[1], KEYS)}
        return frozenset(step for step, tensor in steps.items() if tensor.shape == shapes.get(step, tensor.shape))

    def _ways(self, usual: Way) -> Iterator[Way]:
        """The ways in which the module may store its weights and take its inputs."""
        owners = [self.module.get_submodule(name.replace("*", "0").rpartition(".")[0]) for name in self.names]
        free = not all(isinstance(owner, nn.Linear) for owner in owners)
        fused = any(len(own) > 1 for own in self.names.values())
        both = False, True
        chosen = any("causal" in name.lower() for name in inspect.signature(self.made).parameters)
        hides = both[usual.causal and not chosen :]
        for turned, by_head, causal, by_item in itertools.product(both[: 1 + free], both[: 1 + fused], hides, both):
            yield replace(usual, turned=turned, by_head=by_head, causal=causal, by_item=by_item)

    def _looks_causal(self) -> bool:
        """Whether names and buffers show that a module always hides later positions."""
        if self.takes & {"mask", "lengths", "is_causal"}:
            return False
        square = [
            buffer for buffer in self.module.buffers() if buffer.dim() > 1 and buffer.shape[-1] == buffer.shape[-2]
        ]
        triangle = any(torch.equal(buffer, part) for buffer in square for part in (buffer.tril(), buffer.triu()))
        return triangle or bool(re.search("(?<!non)(?<!non_)causal", self.made.__name__.lower()))

    def _forms(self, way: Way) -> Iterator[str]:
        """The forms of a mask with which the module computes the formula; then those that it takes."""
        taken = []
        for form in MASKS:
            for mask in (self.visible, ~self.visible):  # its polarity is a convention, which is declared
                output, _ = self._run(replace(way, mask=form), mask)
                taken += [form] * (output is not None)
                if near(output, self._expected(way.causal, self.visible)):
                    yield form
        yield from taken

    def _run(self, way: Way, mask: Tensor | None = None) -> tuple[Tensor | None, dict[str, Tensor]]:
        """The output and the steps of the trial; None where the call raises."""
        self.way = way
        try:
            named = self.inputs(*self.call, self.sizes.heads, mask, is_causal=way.causal)
            return self._called(self.module, self.weights(self.module, self.values, self.sizes.heads), named)
        except Exception as error:
            self.error = error
            return None, {}

    def _expected(self, causal: bool, mask: Tensor | None = None) -> Tensor:
        """The formula with the trial's weights."""
        query, key, value = (
            (x @ weights).unflatten(-1, (self.sizes.heads, -1)).transpose(1, 2)
            for x, weights in zip(self.call, self.values.values(), strict=False)
        )
        scores = query @ key.mT / query.shape[-1] ** 0.5
        scores = scores.masked_fill(~mask, -torch.inf) if mask is not None else scores
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        merged = (scores.masked_fill(hidden & causal, -torch.inf).softmax(-1) @ value).transpose(1, 2).flatten(2)
        expected: Tensor = merged @ self.values["w_output"] if "w_output" in self.own else merged
        return expected

    def notes(self) -> Iterator[str]:
        """What is tested, and what is unusual about the module."""
        biases = "biases too" if self.own & {*BIASES} else "no biases"
        weights = f"tests set its weights: {shown(self.names)}; {biases}"
        yield f"{self.name} is tested as {WEIGHTED} in evaluation mode; {weights}"
        if self.way.causal:
            sees = near(self._run(self.way)[0], self._expected(causal=False))
            hides = (
                "should always hide later positions by its name or a buffer" if sees else "always hides later positions"
            )
            yield f"it {hides}, so only tests with is_causal run"
        if self.way.by_head:
            yield "its fused layer holds q, k and v of one head after the other"
        if "x" in self.takes:
            yield "forward takes one sequence, so only self-attention is tested"
        if both := [parameter for parameter, meaning in self.forward.items() if meaning == "key and value"]:
            yield f"{both[0]} of forward is the input of keys and values"
        if self.is_random:
            yield RANDOM
        named = self.inputs(*self.call, self.sizes.heads, is_causal=self.way.causal)
        own = self.weights(self.module, self.values, self.sizes.heads)
        if names := unused(lambda leaves: self._called(self.module, leaves, named)[0], own):
            yield f"forward does not use {', '.join(names)}"


def _together(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of equal parameters side by side, along their smallest axis."""
    sizes = list(shapes[0])
    sizes[sizes.index(min(sizes))] *= len(shapes)
    return tuple(sizes)


def _same(first: Tensor, second: Tensor) -> bool:
    return first is second or torch.equal(first, second)


def _is_nan_in_empty_rows_alone(output: Any, visible: Tensor) -> bool:
    """Whether an output (b, l, o) is NaN for queries without visible keys in a head, and for no other."""
    if not isinstance(output, Tensor):
        return False
    empty, nan = ~visible.any(-1), output.isnan().any(-1)
    empty = empty.any(1) if empty.dim() == 3 else empty
    return bool(nan.any()) and not bool((nan & ~empty).any())


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
