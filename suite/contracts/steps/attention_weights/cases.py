"""The cases of the contract `attention_weights`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from suite import asking
from suite.asking.layouts import Scattered
from suite.asking.question import Generator, Inputs, Printed, Question, Refused, Shaped, numbers
from suite.contracts.steps.attention_weights.contract import POSITIONAL
from suite.contracts.steps.attention_weights.oracle import attention_weights
from suite.records import DTYPES
from suite.sources import documents

Array = np.ndarray[Any, Any]
Mask = Callable[[Generator], Array]
Select = Callable[[Array], Array]

EMPTY = ("doc-004/11.3.2.1-literal-lens-zero", "doc-002/causal-strict")
"""Examples whose documents give the mean or NaN in first rows where the contract gives zeros: asked for the others."""


def cases() -> list[asking.Case]:
    """All cases, the plainest first."""
    return [
        *plain(), *printed(), *masks(), *lengths(), *causal(), *sums(), *ranks(), *sizes(), *numerics(), *layouts(),
        *bad_input(),
    ]  # fmt: skip


def drawn(
    random: Generator,
    *,
    shape: tuple[int, ...] = (5, 7),
    size: float = 2.0,
    shift: float = 0.0,
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


def question(name: str, why: str, dtypes: tuple[str, ...] = DTYPES, **unusual: Any) -> Question:
    options: dict[str, Any] = {
        option: unusual.pop(option) for option in ("normaliser", "is_causal") if option in unusual
    }
    return Question(name, why, attention_weights, partial(drawn, **unusual), POSITIONAL, options, dtypes)


def of(*shape: int) -> Mask:
    return lambda random: random.random(shape) < 0.6


def plain() -> Iterator[Question]:
    """A softmax over the keys."""
    yield question("plain/usual", "more keys than queries")
    yield question("plain/square", "as many keys as queries: axes that were swapped still fit", shape=(6, 6))
    yield question("plain/one", "one score", shape=(1, 1))
    yield question("plain/by_name", "the default, spelled out", normaliser="softmax")
    yield question("plain/minus_infinity", "scores of −∞, whose weight is zero", minus_infinity=np.s_[..., 1])


def masks() -> Iterator[Question]:
    """Boolean masks."""

    def with_an_empty_row(random: Generator) -> Array:
        mask = random.random((5, 7)) < 0.6
        mask[1] = False
        return mask

    yield question("mask/whole", "each query has keys of its own", mask=of(5, 7))
    yield question("mask/by_key", "the same for all queries", mask=of(7))
    yield question("mask/square", "a mask whose queries and keys could be swapped", shape=(6, 6), mask=of(6, 6))
    yield question("mask/empty_row", "a query that may attend to nothing gives zeros", mask=with_an_empty_row)
    yield question("mask/with_others", "a mask, lengths and the causal rule at once", shape=(2, 7, 7), mask=of(2, 7, 7),
                   lengths=[3, 6], is_causal=True)  # fmt: skip


def lengths() -> Iterator[Question]:
    """Valid lengths."""
    yield question("lengths/by_item", "one for each item", shape=(3, 5, 7), lengths=[3, 7, 1])
    yield question("lengths/by_query", "one for each query", shape=(2, 4, 7), lengths=[[1, 2, 3, 4], [7, 6, 5, 4]])
    yield question("lengths/square", "as many items as queries", shape=(4, 4, 4), lengths=[4, 3, 2, 1])
    yield question("lengths/zero", "no valid key gives zeros", shape=(2, 5, 7), lengths=[0, 4])
    yield question("lengths/too_long", "more than there are keys masks nothing", shape=(2, 5, 7), lengths=[9, 4])
    yield question("lengths/int32", "integers of 32 bits", shape=(2, 5, 7), lengths=np.array([3, 6], np.int32))
    yield question("lengths/with_causal", "both rules at once", shape=(2, 7, 7), lengths=[3, 6], is_causal=True)


def causal() -> Iterator[Question]:
    """No query looks ahead."""
    yield question("causal/square", "as many keys as queries", shape=(6, 6), is_causal=True)
    yield question("causal/wide", "more keys than queries: aligned at the upper left", shape=(4, 7), is_causal=True)
    yield question("causal/high", "more queries than keys: aligned at the upper left", shape=(7, 4), is_causal=True)


def sums() -> Iterator[Question]:
    """Scores divided by their sum."""
    yield question("sum/usual", "positive scores", normaliser="sum", positive=True)
    yield question("sum/masked", "over what is allowed", normaliser="sum", positive=True, mask=of(5, 7))
    yield question("sum/causal", "over what came before", normaliser="sum", positive=True, shape=(6, 6), is_causal=True)
    yield question("sum/lengths", "over the valid keys, of which one item has none", normaliser="sum", positive=True,
                   shape=(2, 5, 7), lengths=[0, 4])  # fmt: skip


def ranks() -> Iterator[Question]:
    """Leading axes."""
    yield question("rank/3", "items of their own", shape=(3, 5, 7))
    yield question("rank/4", "items and heads of their own", shape=(2, 3, 5, 7), mask=of(2, 1, 5, 7))
    yield question("rank/4_by_item", "a mask by item and key", shape=(3, 3, 5, 7), mask=of(3, 1, 1, 7))


def sizes() -> Iterator[Question]:
    """Sizes that tiles do not divide, and none at all."""
    yield question("size/keys", "a last key among many", shape=(3, 1025), size=0.5)
    yield question("size/queries", "a last query among many", shape=(129, 3))
    yield question("size/no_keys", "nothing to attend to", shape=(5, 0))
    yield question("size/no_queries", "nobody asks", shape=(0, 7))


def numerics() -> Iterator[Question]:
    """Large and small scores."""
    yield question("numerics/large", "scores of which a naive exponential overflows", shift=800.0,
                   dtypes=("float64", "float32"))  # fmt: skip
    yield question("numerics/very_negative", "scores of which every naive exponential is zero", shift=-800.0,
                   dtypes=("float64", "float32"))  # fmt: skip
    yield question("numerics/below_fill", "allowed scores far below what is written over masked ones", size=1.0,
                   shift=-3e6, dtypes=("float64", "float32"), mask=of(5, 7))  # fmt: skip
    yield question("numerics/minus_infinity", "a query whose scores are all −∞ gives zeros", minus_infinity=np.s_[2])
    yield question("numerics/peaked", "weights that are nearly zero and one", size=20.0)


def layouts() -> Iterator[asking.Case]:
    """Scores and masks that do not lie in memory row by row."""
    yield Scattered(question("layout/scattered", "in memory from the last axis to the first, with gaps"))
    yield Scattered(question("layout/masked", "a mask that lies so too", shape=(2, 5, 7), mask=of(2, 5, 7)))


def bad_input() -> Iterator[Refused]:
    """What no weights are defined for."""
    asked: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        ("normaliser", "a normaliser that does not exist", {}, {"normaliser": "sparsemax"}),
        ("mask_keys", "a mask for 6 of 7 keys", {"mask": of(5, 6)}, {}),
        ("mask_queries", "a mask for 4 of 5 queries", {"mask": of(4, 7)}, {}),
        ("mask_rank", "a mask of a higher rank than the scores", {"mask": of(2, 5, 7)}, {}),
        ("float_mask", "a mask of numbers", {"mask": lambda random: random.normal(size=(5, 7))}, {}),
        ("negative_length", "a length of −1", {"shape": (2, 5, 7), "lengths": [-1, 4]}, {}),
        ("float_length", "a length of 2.5", {"shape": (2, 5, 7), "lengths": [2.5, 4.0]}, {}),
        ("one_length", "a length of one item, which would broadcast to 2", {"shape": (2, 5, 7), "lengths": [4]}, {}),
        ("items", "lengths of 3 items where there are 2", {"shape": (2, 5, 7), "lengths": [1, 2, 3]}, {}),
        ("queries", "lengths of 4 queries where there are 5", {"shape": (1, 5, 7), "lengths": [[1, 2, 3, 4]]}, {}),
    ]
    for name, why, unusual, options in asked:
        yield Refused(f"bad_input/{name}", why, partial(drawn, **unusual), POSITIONAL, options)


def printed() -> Iterator[Printed | Shaped]:
    """The documents' weights from scores."""
    for id, quantity, inputs, options, select in given():
        example = documents.examples()[id]
        why = f"{example['document']}, section {example['section']}: {quantity}"
        values = numbers(example["expected"][quantity])
        if id in EMPTY:
            inputs, values = {name: array[1:] for name, array in inputs.items()}, values[1:]
        yield Printed(
            f"documents/{id}/{quantity}", why, attention_weights, partial(_as_given, inputs), POSITIONAL, options,
            printed=values, decimals=example["printed_decimals"][quantity], select=select,
        )  # fmt: skip
    for id, example in documents.of("masked_softmax", kind="shape").items():
        inputs = example["inputs"]
        why = f"{example['document']}, section {example['section']}: shape"
        draw = partial(drawn, shape=tuple(inputs["scores_shape"]), lengths=inputs["valid_lens"])
        yield Shaped(f"documents/{id}", why, attention_weights, draw, POSITIONAL,
                     shape=tuple(example["expected"]["output_shape"]))  # fmt: skip


def given() -> Iterator[tuple[str, str, dict[str, Array], dict[str, Any], Select]]:
    """An example's id, the quantity that it gives, scores and lengths or mask, options, and what makes it of weights."""
    whole: Select = np.asarray
    for id, example in documents.of("masked_softmax", kind="values").items():
        inputs, parameters = example["inputs"], example["parameters"]
        if "scores" in inputs:
            asked = {"scores": numbers(inputs["scores"])}
            if "valid_lens" in inputs:
                asked["lengths"] = np.asarray(inputs["valid_lens"])
            if keep := parameters.get("keep"):
                asked["attn_mask"] = np.tri(len(asked["scores"]), k=0 if keep == "column <= row" else -1, dtype=bool)
            yield id, "weights", asked, {}, whole
        elif "mask" in example["expected"] and "n" in inputs:
            yield id, "mask", {"scores": np.zeros((inputs["n"], inputs["n"]))}, {"is_causal": True}, _counted
        elif parameters.get("procedure"):
            query, key = numbers(inputs["query"]), numbers(inputs["key"])
            asked = {"scores": parameters["scale"] * query @ key.T}
            if "renormalised" in example["expected"]:
                yield id, "masked_weights", asked, {}, np.tril
                yield id, "row_sums", asked, {}, _lower_sums
                yield id, "renormalised", asked, {"is_causal": True}, whole
                yield id, "renormalised_row_sums", asked, {"is_causal": True}, _lower_sums
            else:
                yield id, "weights", asked, {"is_causal": True}, whole
    for id, example in documents.of("attention").items():
        inputs, parameters = example["inputs"], example["parameters"]
        if parameters.get("normaliser") == "divide by the sum":
            scores = inputs.get("unnormalised")
            terms = numbers(inputs["query"]) @ numbers(inputs["key"]).T if scores is None else numbers(scores)
            yield id, "weights", {"scores": terms}, {"normaliser": "sum"}, whole
        elif "scores" in inputs and "weights" in example["expected"]:
            yield id, "weights", {"scores": numbers(inputs["scores"])}, {}, whole


def _as_given(inputs: Inputs, random: Generator) -> Inputs:
    return inputs


def _counted(weights: Array) -> Array:
    """Ones where equal scores have a weight: of row i, counted from 1, each is 1/i."""
    return weights * np.arange(1, len(weights) + 1)[:, None]


def _lower_sums(weights: Array) -> Array:
    sums: Array = np.tril(weights).sum(-1)
    return sums
