"""The usual case: one call, whose output and gradients are compared with the oracle's."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnsuite.cases import Call, Calls, Conventions, Reply
from attnsuite.cases.case import HOW, Traits
from attnsuite.cases.expected import AttentionWeights, Form, PerCallCase, WithinBounds, WrongElements
from attnsuite.cases.layouts import INPUTS, LAYOUTS
from attnsuite.cases.returned_weights import identity_values_of
from attnsuite.cases.tensors import FAST, HALF, Array, as_tensor, dtype_of
from attnsuite.contracts.attention import oracle
from attnsuite.contracts.attention.cases.draws import Sizes, drawn
from attnsuite.contracts.attention.feature import DrawContext, arguments, draw_arguments, features
from attnsuite.contracts.attention.tolerance import ACCEPT_OUTPUT
from attnsuite.judging import compare
from attnsuite.judging.precision import PRECISIONS, Bounded, widest
from attnsuite.judging.verdicts import Verdict

JUDGED_ELEMENTS = 2**17
"""Number of scores b·h·l·s above which only sampled query rows are judged: more would take seconds."""
JUDGED_IN_EXTENDED_PRECISION = 2**14
"""The same for the oracle in extended precision, which takes eight times as long."""
LSE = "lse"
"""The name of the log-sum-exp, the second output where it is requested."""
SAMPLED_ROWS = 24
"""At least this many rows are judged, however many keys they have."""


class AttentionCase(PerCallCase):
    """One attention to compute. Every field has a plain default, so a case states only what is unusual.

    By default it is tested in the dtypes that have kernels of their own. Combined cases have every feature in float64.

    `values` are the values of features by their keys: `causal=True`, `mask=Mask()`, `key_heads=2`. `length` sets both
    `queries` and `keys`.
    """

    def __init__(
        self,
        name: str,
        why: str,
        *,
        batch: int = 2,
        heads: int = 2,
        queries: int = 5,
        keys: int = 7,
        length: int | None = None,
        width: int = 8,
        value_width: int | None = None,
        rank: int = 4,
        gradient_of: tuple[str, ...] = (),
        draw: str = "peaked",
        layout: Mapping[str, str] | None = None,
        spelled_out: bool = False,
        grad_mode: bool = True,
        inference: bool = False,
        dtypes: tuple[str, ...] = FAST,
        **values: Any,
    ) -> None:
        self.name, self.why, self.dtypes = name, why, dtypes
        self.batch, self.heads, self.width = batch, heads, width
        self.queries, self.keys = (queries, keys) if length is None else (length, length)
        self.value_width, self.rank, self.gradient_of, self.draw = value_width, rank, gradient_of, draw
        self.layout, self.grad_mode, self.inference = layout or {}, grad_mode, inference
        self.spelled_out = spelled_out
        """Pass every option that torch's function has, those at their defaults too."""
        self.values = {key: value for key, value in values.items() if value is not None and value is not False}

    def but(self, name: str | None = None, why: str | None = None, **changes: Any) -> AttentionCase:
        """The same case with changes."""
        fields = {field: value for field, value in vars(self).items() if field != "values"}
        names = {"name": self.name if name is None else name, "why": self.why if why is None else why}
        return AttentionCase(**(fields | self.values | names | changes))

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            self.batch, self.heads, self.values.get("key_heads", self.heads),
            self.queries, self.keys, self.width, self.width if self.value_width is None else self.value_width,
        )  # fmt: skip

    def calls(self, dtype: str) -> Calls:
        return (self.call(dtype),)

    def call(self, dtype: str) -> Call:
        """Draw the numbers, round them to the dtype, lay them out."""
        precision = getattr(torch, dtype)
        arrays, upstream, random = drawn(self.name, self.draw, self.sizes, dtype)
        tensors = {name: as_tensor(array, dtype) for name, array in zip(INPUTS, arrays, strict=True)}
        passed = draw_arguments(self.values, DrawContext(random, self.sizes, precision))
        options = self.defaults | {name: value for name, value in passed.items() if not isinstance(value, Tensor)}
        leading = (slice(None),) * 4 if self.rank == 4 else (0,) * (4 - self.rank)
        tensors = {name: tensor[leading] for name, tensor in tensors.items()}
        if self.rank == 2 and "sinks" in passed:
            passed["sinks"] = passed["sinks"][:1]  # of the first head, as all tensors
        tensors |= {name: value for name, value in passed.items() if isinstance(value, Tensor)}
        gradient = self._laid("output_gradient", as_tensor(upstream, dtype)[leading]) if self.gradient_of else None
        return Call(
            {name: self._laid(name, tensor) for name, tensor in tensors.items()},
            options,
            gradient_of=self.gradient_of,
            output_gradient=gradient,
            second=LSE if options.get("return_lse") else "",
            second_gradient=None if gradient is None or not options.get("return_lse") else lse_gradient(gradient),
            grad_mode=self.grad_mode,
            inference=self.inference,
            seed=1 if any(feature.seeded and feature.key in self.values for feature in features()) else None,
        )

    def _laid(self, name: str, tensor: Tensor) -> Tensor:
        return LAYOUTS[self.layout.get(name, "contiguous")](tensor)

    @property
    def defaults(self) -> dict[str, Any]:
        """The options to pass although they are at their defaults; tensors have none."""
        if not self.spelled_out:
            return {}
        known = [feature for feature in arguments() if feature.place is not None]
        return {feature.name: feature.default for feature in known if feature.name != "attn_mask"}

    def expected(self, calls: Calls, conventions: Conventions) -> tuple[WithinBounds, ...]:
        return tuple(expected_result(call, conventions) for call in calls)

    def traits(self, dtype: str) -> Traits:
        return traits(self, dtype)

    def lengths(self) -> Mapping[str, int]:
        return {"keys": self.keys, "queries": self.queries, "width": self.width}


case = AttentionCase
"""The constructor of a row in tables of cases."""
single = partial(AttentionCase, batch=1, heads=1)
"""The same with a single item and head."""
few_dtypes = partial(AttentionCase, dtypes=("float32", "bfloat16"))
"""The same in a dtype of each kind, where combined cases have the feature in all."""
gradients = partial(AttentionCase, gradient_of=INPUTS)
"""The same with the gradients of query, key and value."""


def form(call: Call) -> Form:
    """The form of a valid reply to a call."""
    query, value = call.tensors["query"], call.tensors["value"]
    gradients = {name: tuple(call.tensors[name].shape) for name in call.gradient_of}
    weights = (*query.shape[:-1], value.shape[-2])
    return Form((*query.shape[:-1], value.shape[-1]), query.dtype, gradients, weights)


def expected_result(
    call: Call, conventions: Conventions, keep_mask: Array | None = None, *, decided: bool = False
) -> WithinBounds:
    """The expected result of a call, on sampled query rows if it is large.

    `keep_mask` is False where dropout sets a weight to 0. With `decided`, the result marks empty rows, where the
    contract decides and not a document.
    """
    dtype, form_of_reply, problem = dtype_of(call), form(call), as_problem(call, conventions, keep_mask)
    rows = None if call.gradient_of else sampled_rows(problem, dtype)
    result = _oracle_result(problem if rows is None else on_rows(problem, rows), dtype)
    empty = result.weights.astype(np.float64).sum(-1, keepdims=True) == 0 if decided else None
    # without NaN; infinity counts as the largest finite number
    largest = min(float(np.fmax.reduce(abs(problem.value), axis=None, initial=0.0)), sys.float_info.max)
    return WithinBounds(
        form_of_reply,
        result.output,
        ACCEPT_OUTPUT,
        {name: _reshaped(result.gradients[name], form_of_reply.gradients[name]) for name in call.gradient_of},
        rows,
        size=largest,
        loose=result.loose,
        aggregate_limits=result.aggregate_limits,
        decided=None
        if empty is None
        else np.broadcast_to(empty, result.output.value.shape).reshape(form_of_reply.shape),
        weights=None if call.options.get("dropout_p") else partial(_weights, problem, rows, dtype),
        attentions=None if result.lse is None else {LSE: _log_sum_exp(call, result.lse, rows)},
    )


def lse_gradient(output_gradient: Tensor) -> Tensor:
    """The gradient of the log-sum-exp in cases: the first column of the output's, float32 or wider."""
    column = output_gradient[..., 0]
    return column.float() if column.dtype.itemsize < 4 else column.clone()


@dataclass(frozen=True)
class LogSumExp(AttentionWeights):
    """The expected log-sum-exp, … h l: in half types float32, or the query's dtype, which costs a rounding."""

    shape: tuple[int, ...] = ()
    rows: Array | None = None
    """The judged queries; None: all."""

    def verdict(self, name: str, reply: Reply) -> Verdict:
        tensor = reply.attention_weights.get(name)
        if tensor is not None and tensor.shape == self.shape:
            reply = replace(reply, attention_weights={name: self._judged(tensor)})
        return AttentionWeights(self._in_dtype(tensor), None).verdict(name, reply)

    def equal(self, name: str, reply: Reply, theirs: Reply) -> bool:
        pair = [side.attention_weights.get(name) for side in (reply, theirs)]
        tensors = [self._judged(tensor) if tensor is not None and tensor.shape == self.shape else tensor
            for tensor in pair]  # fmt: skip
        replies = [replace(reply, attention_weights={name: tensor}) for tensor in tensors]
        return AttentionWeights(self._in_dtype(pair[0]), None).equal(name, *replies)

    def wrong_elements(self, name: str, reply: Reply) -> WrongElements:
        return AttentionWeights(self._in_dtype(reply.attention_weights.get(name)), None).wrong_elements(name, reply)

    def _judged(self, tensor: Tensor) -> Tensor:
        """The judged queries; NaN where any number may stand."""
        assert isinstance(self.expected, WithinBounds)
        judged = tensor if self.rows is None else tensor[..., torch.from_numpy(self.rows)]
        return judged.masked_fill(torch.from_numpy(np.isnan(self.expected.output.value.astype(np.float64))), torch.nan)

    def _in_dtype(self, tensor: Tensor | None) -> WithinBounds:
        """The expected numbers in the dtype of a log-sum-exp, if it may have that; else in float32 or wider."""
        expected = self.expected
        assert isinstance(expected, WithinBounds)
        shape = self.shape if tensor is None or tensor.shape != self.shape else expected.output.value.shape
        own = expected.form.dtype
        wide = torch.float32 if own.itemsize < 4 else own
        dtype = own if tensor is not None and tensor.dtype == own else wide
        rounding = PRECISIONS[str(dtype)[6:]].unit * np.nan_to_num(abs(expected.output.value), posinf=0.0)
        bounded = Bounded(expected.output.value, expected.output.bound + rounding.astype(np.float64))
        return replace(expected, form=Form(tuple(shape), dtype), output=bounded)


def _log_sum_exp(call: Call, expected: Bounded, rows: Array | None) -> LogSumExp:
    """The expected log-sum-exp, without the axes that the call does not have."""
    query = call.tensors["query"]
    shape = (*query.shape[:-2], expected.value.shape[-1])
    within = WithinBounds(Form(shape, query.dtype), _reshaped(expected, shape), ACCEPT_OUTPUT)
    return LogSumExp(within, None, tuple(query.shape[:-1]), rows)


def _weights(problem: oracle.Problem, rows: Array | None, dtype: str) -> Bounded:
    """The weights before dropout: the output for identity values."""
    *lead, keys, _ = problem.value.shape
    alone = replace(problem, value=identity_values_of(lead, keys), output_gradient=None, gradient_of=())
    return _oracle_result(alone if rows is None else on_rows(alone, rows), dtype).output


def oracle_result(call: Call, conventions: Conventions, keep_mask: Array | None = None) -> oracle.OracleResult:
    """The oracle's result for a whole call."""
    return _oracle_result(as_problem(call, conventions, keep_mask), dtype_of(call))


def _oracle_result(problem: oracle.Problem, dtype: str) -> oracle.OracleResult:
    return oracle.attention(problem, PRECISIONS[dtype], widest(dtype))


def as_problem(call: Call, conventions: Conventions, keep_mask: Array | None = None) -> oracle.Problem:
    """A call as arrays with four axes."""
    query, key, value = (four_axes(compare.numbers(call.tensors[name])) for name in INPUTS)
    upstream = None if call.output_gradient is None else four_axes(compare.numbers(call.output_gradient))
    of_lse = None if call.second_gradient is None else four_axes(compare.numbers(call.second_gradient[..., None]))
    masks = {name: tensor.numpy() if tensor.dtype == torch.bool else compare.numbers(tensor)
        for name, tensor in call.tensors.items() if name not in INPUTS}  # fmt: skip
    return oracle.Problem(
        *(query, key, value),
        options={**call.options, **masks},
        conventions=conventions,
        keep_mask=keep_mask,
        output_gradient=upstream,
        lse_gradient=of_lse,
        gradient_of=call.gradient_of,
    )


def sampled_rows(problem: oracle.Problem, dtype: str) -> Array | None:
    """Rows to judge when all are too many: the first, the last, and as many evenly between as there is time for."""
    *lead, queries, _ = problem.query.shape
    per_row = int(np.prod(lead)) * problem.key.shape[-2]
    judged = JUDGED_ELEMENTS if widest(dtype) is np.float64 else JUDGED_IN_EXTENDED_PRECISION
    count = max(SAMPLED_ROWS, judged // max(per_row, 1))
    if queries <= count:
        return None
    edges = [0, 1, 2, queries - 3, queries - 2, queries - 1]
    return np.unique([*edges, *np.linspace(3, queries - 4, count - len(edges)).astype(int)])


def on_rows(problem: oracle.Problem, rows: Array) -> oracle.Problem:
    """The same problem for some of its queries."""
    keep_mask = problem.keep_mask
    if keep_mask is not None and keep_mask.ndim > 1:
        keep_mask = keep_mask[..., rows, :]
    return replace(
        problem, query=problem.query[..., rows, :], keep_mask=keep_mask, rows=rows, queries=problem.query.shape[-2]
    )


def four_axes(array: Array) -> Array:
    """The same with leading axes of length 1, b h and the last two."""
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _reshaped(bounded: Bounded, shape: tuple[int, ...]) -> Bounded:
    return Bounded(bounded.value.reshape(shape), bounded.bound.reshape(shape))


BEYOND = tuple(2**power for power in range(16, -1, -1))
"""Numbers beyond which kernels take other paths: sizes of vectors, tiles, splits and indices. The largest come first,
because of those that tell as much apart the first is said."""
DIVISORS = (2, 4, 8, 16, 32, 64, 128)
"""Block sizes of kernels: a remainder takes another path."""


def traits(case: AttentionCase, dtype: str) -> Traits:
    """The unusual properties of a case in a dtype, by factor."""
    sizes, other_width = case.sizes, case.sizes.value_width != case.sizes.width
    more = "more queries than keys" if sizes.queries > sizes.keys else "more keys than queries"
    unequal = more, "different numbers of queries and keys"
    properties: dict[str, Sequence[str]] = {
        "keys": tuple(_size("keys", sizes.keys)),
        "queries": tuple(_size("queries", sizes.queries)),
        "width": tuple(_width("width", sizes.width)),
        "value width": ("another value width than the query's", *_width("value width", sizes.value_width))
        if other_width
        else (),
        "matrices": tuple(_many("batch items times heads", sizes.batch * sizes.heads)),
        "heads": tuple(_many("heads", sizes.heads)),
        "batch": tuple(_many("batch items", sizes.batch)),
        "shape": ("as many queries as keys",) if sizes.queries == sizes.keys else unequal,
    }
    for feature in features():
        if (value := case.values.get(feature.key)) is not None:
            properties |= feature.traits(value, sizes) if feature.traits else {feature.key: (feature.name,)}
    layouts = [(f"{layout.replace('_', ' ')} memory of the {name.replace('_', ' ')}", "inputs that are not contiguous")
        for name, layout in case.layout.items()]  # fmt: skip
    alone = (f"with a gradient of {case.gradient_of[0]} alone",) if len(case.gradient_of) == 1 else ()
    backward = ("backward", *alone) if case.gradient_of else ()
    return properties | {
        "rank": (f"rank {case.rank}",) if case.rank < 4 else (),
        "draw": () if case.draw == "peaked" else (case.draw.replace("_", " "),),
        "layout": tuple(words for pair in layouts for words in pair),
        "dtype": (dtype, *(("a half type",) if dtype in HALF else ())),
        HOW: (*backward, *(("without grad mode",) if not case.grad_mode or case.inference else ())),
    }


def _many(name: str, count: int) -> Iterator[str]:
    if count == 0:
        yield f"no {name}"
    yield from (f"more than {limit} {name}" for limit in BEYOND if count > limit)


def _size(name: str, count: int) -> Iterator[str]:
    yield from _many(name, count)
    one = f"one {name.removesuffix('s') if name == 'keys' else 'query'}"
    if count == 1:
        yield one
    yield from (f"{one} less than a multiple of {by}" for by in DIVISORS[2:] if count % by == by - 1)
    yield from (f"{one} more than a multiple of {by}" for by in DIVISORS[2:] if count > by and count % by == 1)
    yield from (f"a number of {name} that {by} does not divide" for by in DIVISORS if count % by)
    yield from (f"a multiple of {by} {name}" for by in DIVISORS if count and count % by == 0)


def _width(name: str, count: int) -> Iterator[str]:
    yield from (f"a {name} above {limit}" for limit in BEYOND if count > limit)
    yield from (f"a {name} that {by} does not divide" for by in DIVISORS if count % by)
    yield from (f"a {name} that {by} divides" for by in DIVISORS if count and count % by == 0)
    yield f"a {name} of {count}"
