"""The cases of the contract `attention_weights`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnsuite.cases import Calls, Case, Replies
from attnsuite.cases.bad_input import BadInputCase
from attnsuite.cases.documented import DocumentedNumbers, DocumentedShape
from attnsuite.cases.expected import Expected
from attnsuite.cases.formula import Formula
from attnsuite.cases.tensors import PRECISE, Array, Generator, Inputs, numbers
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.contracts.steps.attention_weights.contract import POSITIONAL
from attnsuite.contracts.steps.attention_weights.oracle import attention_weights
from attnsuite.judging import compare

Mask = Callable[[Generator], Array]
Select = Callable[[Array], Array]

DECIDED = "where the document's own code gives {}, zeros are due unless the convention empty_row is declared"
"""What the table says of the rows that a document leaves empty."""


def cases() -> list[Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *printed(), *masks(), *lengths(), *causal(), *sums(), *ranks(), *sizes(), *numerics(), *layouts(),
        *asked.again(), *bad_input(),
    ]  # fmt: skip


def drawn(
    random: Generator,
    *,
    shape: tuple[int, ...] = (5, 7),
    size: float | Array = 2.0,
    shift: float | Array = 0.0,
    positive: bool = False,
    minus_infinity: Any = None,
    mask: Mask | None = None,
    lengths: Any = None,
) -> Inputs:
    """Scores of several units, so that some weights are large and none hides behind another.

    `minus_infinity` is an index of those that are −∞.
    """
    scores = size * random.normal(size=shape) + shift
    if positive:
        scores = 0.1 + abs(scores)
    if minus_infinity is not None:
        scores[minus_infinity] = -np.inf
    inputs = {"scores": scores}
    if mask is not None:
        inputs["attn_mask"] = mask(random)
    return inputs if lengths is None else inputs | {"lengths": np.asarray(lengths)}


asked = Formula(attention_weights, POSITIONAL, drawn, options=("normaliser", "is_causal"), conventions=("empty_row",))


def of(*shape: int) -> Mask:
    return lambda random: random.random(shape) < 0.6


def plain() -> Iterator[Case]:
    """A softmax over the keys."""
    yield asked("plain/usual", "more keys than queries")
    yield asked("plain/square", "as many keys as queries: axes that were swapped still fit", shape=(6, 6))
    yield asked("plain/one", "one score", shape=(1, 1))
    yield asked("plain/by_name", "the default, spelled out", normaliser="softmax")
    yield asked("plain/minus_infinity", "scores of −∞, whose weight is zero", minus_infinity=np.s_[..., 1])


def masks() -> Iterator[Case]:
    """Boolean masks."""

    def with_an_empty_row(random: Generator) -> Array:
        mask = random.random((5, 7)) < 0.6
        mask[1] = False
        return mask

    yield asked("mask/whole", "each query has keys of its own", mask=of(5, 7))
    yield asked("mask/by_key", "the same for all queries", mask=of(7))
    yield asked("mask/square", "a mask whose queries and keys could be swapped", shape=(6, 6), mask=of(6, 6))
    yield asked("mask/empty_row", "a query that may attend to nothing gives zeros", mask=with_an_empty_row)
    yield asked("mask/as_many_items", "two axes are those of queries and keys, though there are as many items",
                   shape=(5, 5, 7), mask=of(5, 7))  # fmt: skip
    yield asked("mask/queries_alone", "some queries may attend to everything, the others to nothing", PRECISE,
                   mask=lambda _: np.arange(5)[:, None] % 3 > 0)  # fmt: skip
    yield asked("mask/one_query", "a single query of each item", PRECISE, shape=(3, 1, 7), mask=of(3, 1, 7),
                   lengths=[3, 7, 5])  # fmt: skip
    yield asked("mask/with_minus_infinity", "a mask, lengths and the causal rule, beside scores of −∞", PRECISE,
                   shape=(2, 7, 7), minus_infinity=np.s_[..., 2], mask=of(2, 7, 7), lengths=[4, 6],
                   is_causal=True)  # fmt: skip
    yield asked("mask/with_others", "a mask, lengths and the causal rule at once", shape=(2, 7, 7), mask=of(2, 7, 7),
                   lengths=[3, 6], is_causal=True)  # fmt: skip


def lengths() -> Iterator[Case]:
    """Valid lengths."""
    yield asked("lengths/by_item", "one for each item", shape=(3, 5, 7), lengths=[3, 7, 1])
    yield asked("lengths/by_query", "one for each query", shape=(2, 4, 7), lengths=[[1, 2, 3, 4], [7, 6, 5, 4]])
    yield asked("lengths/square", "as many items as queries", shape=(4, 4, 4), lengths=[4, 3, 2, 1])
    yield asked("lengths/square_by_query", "one for each query, of as many items", shape=(4, 4, 7),
                   lengths=[[1, 2, 3, 4], [7, 6, 5, 4], [2, 2, 7, 7], [3, 5, 1, 6]])  # fmt: skip
    yield asked("lengths/zero", "no valid key gives zeros", shape=(2, 5, 7), lengths=[0, 4])
    yield asked("lengths/too_long", "more than there are keys masks nothing", shape=(2, 5, 7), lengths=[9, 4])
    yield asked("lengths/int32", "integers of 32 bits", shape=(2, 5, 7), lengths=np.array([3, 6], np.int32))
    yield asked("lengths/with_causal", "both rules at once", shape=(2, 7, 7), lengths=[3, 6], is_causal=True)


def causal() -> Iterator[Case]:
    """No query looks ahead."""
    yield asked("causal/square", "as many keys as queries", shape=(6, 6), is_causal=True)
    yield asked("causal/wide", "more keys than queries: aligned at the upper left", shape=(4, 7), is_causal=True)
    yield asked("causal/rank_4", "in every head of every item", PRECISE, shape=(2, 3, 5, 7), is_causal=True)
    yield asked("causal/one_query", "the first query sees the first key alone", PRECISE, shape=(2, 1, 7),
                   is_causal=True)  # fmt: skip
    yield asked("causal/many_keys", "most of many keys are hidden", PRECISE, shape=(3, 1025), size=0.5,
                   is_causal=True)  # fmt: skip
    yield asked("causal/many_queries", "the last of many queries sees all", PRECISE, shape=(129, 5), is_causal=True)
    yield asked("causal/high", "more queries than keys: aligned at the upper left", shape=(7, 4), is_causal=True)


def sums() -> Iterator[Case]:
    """Scores divided by their sum."""
    yield asked("sum/usual", "positive scores", normaliser="sum", positive=True)
    yield asked("sum/masked", "over what is allowed", normaliser="sum", positive=True, mask=of(5, 7))
    yield asked("sum/causal", "over what came before", normaliser="sum", positive=True, shape=(6, 6), is_causal=True)
    yield asked("sum/with_others", "under a mask, lengths and the causal rule at once", PRECISE, normaliser="sum",
                   positive=True, shape=(2, 7, 7), mask=of(2, 7, 7), lengths=[3, 6], is_causal=True)  # fmt: skip
    yield asked("sum/rank_4", "under a mask by head and the causal rule", PRECISE, normaliser="sum", positive=True,
                   shape=(3, 3, 5, 5), mask=of(3, 5, 5), is_causal=True)  # fmt: skip
    yield asked("sum/lengths", "over the valid keys, of which one item has none", normaliser="sum", positive=True,
                   shape=(2, 5, 7), lengths=[0, 4])  # fmt: skip


def ranks() -> Iterator[Case]:
    """Leading axes."""
    yield asked("rank/3", "items of their own", shape=(3, 5, 7))
    yield asked("rank/4", "items and heads of their own", shape=(2, 3, 5, 7), mask=of(2, 1, 5, 7))
    yield asked("rank/4_by_head", "a mask of 3 axes, those of heads, queries and keys", PRECISE, shape=(2, 3, 5, 7),
                   mask=of(3, 5, 7))  # fmt: skip
    yield asked("rank/4_by_head_square", "the same where there are as many items", shape=(3, 3, 5, 7), mask=of(3, 5, 7))
    yield asked("rank/4_whole", "a mask of each head of each item, as many of both", shape=(3, 3, 5, 7),
                   mask=of(3, 3, 5, 7))  # fmt: skip
    yield asked("rank/4_square", "all sizes equal", PRECISE, shape=(3, 3, 3, 3), mask=of(3, 1, 3, 3), is_causal=True)
    yield asked("rank/4_by_item", "a mask by item and key", shape=(3, 3, 5, 7), mask=of(3, 1, 1, 7))


def sizes() -> Iterator[Case]:
    """Sizes that tiles do not divide, and none at all."""
    yield asked("size/keys", "a last key among many", shape=(3, 1025), size=0.5)
    yield asked("size/masked_keys", "a mask and lengths among many keys", PRECISE, shape=(2, 3, 1025), size=0.5,
                   mask=of(2, 3, 1025), lengths=[700, 1024])  # fmt: skip
    yield asked("size/masked_queries", "a mask and lengths for many queries", PRECISE, shape=(2, 129, 5),
                   mask=of(2, 129, 5), lengths=[3, 4])  # fmt: skip
    yield asked("size/queries", "a last query among many", shape=(129, 3))
    yield asked("size/no_keys", "nothing to attend to", shape=(5, 0))
    yield asked("size/no_queries", "nobody asks", shape=(0, 7))


def numerics() -> Iterator[Case]:
    """Large and small scores."""
    yield asked("numerics/large", "scores of which a naive exponential overflows", shift=800.0,
                   dtypes=PRECISE)  # fmt: skip
    yield asked("numerics/very_negative", "scores of which every naive exponential is zero", shift=-800.0,
                   dtypes=PRECISE)  # fmt: skip
    yield asked("numerics/below_half_fill", "allowed scores of some queries below −10,000, which float16 has room for",
                   size=64.0, shift=np.array([[0.0], [-5e3], [-3e4], [-3e4], [-3e4]]), mask=of(5, 7))  # fmt: skip
    yield asked("numerics/below_fill", "allowed scores below what is often written over masked ones: −10⁴, −10⁶ and −10⁹",
                   PRECISE, size=np.array([[2.0], [2.0], [2.0], [64.0], [1e4]]), mask=of(5, 7),
                   shift=np.array([[0.0], [-5e3], [-3e5], [-3e8], [-3e10]]))  # fmt: skip
    yield asked("numerics/minus_infinity", "a query whose scores are all −∞ gives zeros", minus_infinity=np.s_[2])
    yield asked("numerics/peaked", "weights that are nearly zero and one", size=20.0)


def layouts() -> Iterator[Case]:
    """Scores and masks that do not lie in memory row by row."""
    return asked.layouts(("masked", "a mask that lies so too", {"shape": (2, 5, 7), "mask": of(2, 5, 7)}))


def bad_input() -> Iterator[BadInputCase]:
    """What no weights are defined for."""
    return asked.refused(
        ("normaliser", "a normaliser that does not exist", {"normaliser": "sparsemax"}),
        ("mask_keys", "a mask for 6 of 7 keys", {"mask": of(5, 6)}),
        ("mask_queries", "a mask for 4 of 5 queries", {"mask": of(4, 7)}),
        ("mask_rank", "a mask of a higher rank than the scores", {"mask": of(2, 5, 7)}),
        ("float_mask", "a mask of numbers", {"mask": lambda random: random.normal(size=(5, 7))}),
        (
            "rank_2",
            "lengths beside scores of rank 2, which have no items",
            {"shape": (5, 7), "lengths": [7, 3, 1, 2, 5]},
        ),
        (
            "rank_4",
            "lengths beside scores of rank 4, where a second axis may be heads or queries",
            {"shape": (2, 3, 5, 7), "lengths": [3, 7]},
        ),
        ("negative_length", "a length of −1", {"shape": (2, 5, 7), "lengths": [-1, 4]}),
        ("float_length", "a length of 2.5", {"shape": (2, 5, 7), "lengths": [2.5, 4.0]}),
        ("one_length", "a length of one item, which would broadcast to 2", {"shape": (2, 5, 7), "lengths": [4]}),
        ("items", "lengths of 3 items where there are 2", {"shape": (2, 5, 7), "lengths": [1, 2, 3]}),
        ("queries", "lengths of 4 queries where there are 5", {"shape": (1, 5, 7), "lengths": [[1, 2, 3, 4]]}),
    )


def printed() -> Iterator[Case]:
    """The documents' weights from scores."""
    for example, quantity, inputs, options, select in given():
        values = numbers(example.expected[quantity])
        case = asked.given(*example.named(quantity), inputs, **options)
        decided = DECIDED.format("NaN" if np.isnan(values).any() else "the mean")
        if quantity in AFTER:
            yield MaskedAfter(case, example.gives(quantity, values), select)
        else:
            yield DocumentedNumbers(case, example.gives(quantity, values), select, where_decided=decided)
    for example in documents.of("masked_softmax", kind="shape"):
        shape = tuple(example.inputs["scores_shape"])
        case = asked(*example.named(), shape=shape, lengths=example.inputs["valid_lens"])
        yield DocumentedShape(case, example.at(), example.output_shape)


def given() -> Iterator[tuple[Excerpt, str, dict[str, Array], dict[str, Any], Select]]:
    """An example, the quantity that it gives, scores and lengths or mask, options, and what makes it of weights."""
    for example in documents.of("masked_softmax", kind="values"):
        if "scores" in example.inputs:
            yield example, "weights", _scores(example), {}, np.asarray
        elif "mask" in example.expected and "n" in example.inputs:
            equal = np.zeros((example.inputs["n"], example.inputs["n"]))
            yield example, "mask", {"scores": equal}, {"is_causal": True}, _counted
        elif example.parameters.get("procedure"):
            for quantity, options, select in _procedure(example):
                query, key = (numbers(example.inputs[name]) for name in ("query", "key"))
                yield example, quantity, {"scores": example.parameters["scale"] * query @ key.T}, options, select
    for example in documents.of("attention"):
        inputs = example.inputs
        if example.parameters.get("normaliser") == "divide by the sum":
            scores = inputs.get("unnormalised")
            terms = numbers(inputs["query"]) @ numbers(inputs["key"]).T if scores is None else numbers(scores)
            yield example, "weights", {"scores": terms}, {"normaliser": "sum"}, np.asarray
        elif "scores" in inputs and "weights" in example.expected:
            yield example, "weights", {"scores": numbers(inputs["scores"])}, {}, np.asarray


def _scores(example: Excerpt) -> dict[str, Array]:
    """Scores, with lengths or a mask where the example has them."""
    found = {"scores": numbers(example.inputs["scores"])}
    if "valid_lens" in example.inputs:
        found["lengths"] = np.asarray(example.inputs["valid_lens"])
    if keep := example.parameters.get("keep"):
        found["attn_mask"] = np.tri(len(found["scores"]), k=0 if keep == "column <= row" else -1, dtype=bool)
    return found


def _procedure(example: Excerpt) -> list[tuple[str, dict[str, Any], Select]]:
    """The quantities on the way of a procedure, the options that ask for each, and what makes it of weights."""
    causal = {"is_causal": True}
    if "renormalised" not in example.expected:
        return [("weights", causal, np.asarray)]
    return [
        ("masked_weights", causal, np.asarray),
        ("row_sums", causal, _sums),
        ("renormalised", causal, np.asarray),
        ("renormalised_row_sums", causal, _sums),
    ]


AFTER = ("masked_weights", "row_sums")
"""Quantities of weights that are masked after the softmax, and not yet divided by what is left."""


class MaskedAfter(DocumentedNumbers):
    """Weights that are masked after the softmax: those of a call without the rule, where a call with it leaves any.

    Both are asked, for who does not mask leaves weights where the document has zeros.
    """

    def calls(self, dtype: str) -> Calls:
        (masked,) = self.of.calls(dtype)
        return replace(masked, options={}), masked

    def answered(self, replies: Replies) -> Array:
        whole, masked = (compare.numbers(reply.output) for reply in replies if reply.output is not None)
        return self.select(np.where(masked > 0, whole, 0.0))

    def computed(self, dues: Sequence[Expected]) -> Array:
        whole, masked = (due.numbers for due in dues)
        return self.select(np.where(masked > 0, whole, 0.0))


def _counted(weights: Array) -> Array:
    """Ones where equal scores have a weight: of row i, counted from 1, each is 1/i."""
    return weights * np.arange(1, len(weights) + 1)[:, None]


def _sums(weights: Array) -> Array:
    sums: Array = weights.sum(-1)
    return sums
