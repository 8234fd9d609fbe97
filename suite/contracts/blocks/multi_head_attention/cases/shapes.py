"""The documents' shapes: of outputs, and of what is seen on the way to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from attnsuite.cases import Calls, Case, ChangedCase, Replies
from attnsuite.cases.backends import BackendCall, BackendCase
from attnsuite.cases.documented import Arrange, DocumentedShape, example
from attnsuite.cases.formula import FormulaCase
from attnsuite.cases.tensors import PRECISE, Array, Generator, valid
from attnsuite.contracts.blocks.multi_head_attention.cases.decisions import of
from attnsuite.contracts.blocks.multi_head_attention.cases.draws import asked
from attnsuite.contracts.blocks.multi_head_attention.cases.plug import scripts
from attnsuite.contracts.blocks.multi_head_attention.contract import BIASES
from attnsuite.contracts.sources import documents
from attnsuite.contracts.sources.documents import Excerpt
from attnsuite.judging.verdicts import Verdict
from attnsuite.model import Example, Source, Status

Shapes = Mapping[str, Sequence[int]]
OF_PLUG: dict[str, Callable[[Shapes], Sequence[int]]] = {
    "query_split_shape": lambda given: given["query"],
    "key_split_shape": lambda given: given["key"],
    "value_split_shape": lambda given: given["value"],
    "x_raw_shape": lambda given: (*given["query"][:3], given["value"][3]),
}
"""What is seen of the heads where an attention is plugged in: what it is given, and what it answers."""


def shapes() -> Iterator[Case]:
    """Outputs of every example, and what else one of them gives the shape of."""
    for excerpt in documents.of("multi_head_attention", kind="shape"):
        yield DocumentedShape(_case(excerpt), excerpt.at(), excerpt.output_shape)
        if "scores_shape" in excerpt.expected:
            yield from _on_the_way(excerpt)


class GivenToPlug(ChangedCase):
    """A case with the probe plugged in, of which a document gives the shape of what it is given, or answers."""

    def __init__(self, of: FormulaCase, source: Source, shape: Sequence[int], read: Callable[[Shapes], Sequence[int]]):
        super().__init__(BackendCase(of, scripts))
        self.source, self.shape, self.read, self.dtypes = source, tuple(shape), read, PRECISE

    def verdict(self, calls: Calls, replies: Replies, truth: Any) -> Verdict:
        found = self.of.verdict(calls, replies, truth)
        if found.status != Status.PASSED:
            return found
        came = tuple(self.read(BackendCall.read(replies[0].attended[0]).shapes))
        if came != self.shape:
            return Verdict(Status.FAILED, f"the heads have shape {came}, the document gives {self.shape}")
        return found

    def example(self) -> Example:
        calls = self.calls("float64")
        due = scripts(calls[0], calls[0])[0][0]
        computed = tuple(self.read({"query": due.query, "key": due.key, "value": due.value}))
        assert self.source is not None
        return example(self.name, self.source, str(self.shape), str(computed), "unseeded draws")


def _on_the_way(excerpt: Excerpt) -> Iterator[Case]:
    """The heads' inputs and what they give, scores and weights, and the heads side by side."""
    heads = excerpt.parameters["num_heads"]
    arranged: dict[str, tuple[Arrange, Mapping[str, Any]]] = {
        # scores are as many as the bits of a mask that says something else of each
        "scores_shape": (lambda output, weights: weights[""], {"mask": of(*excerpt.expected["scores_shape"])}),
        "attention_shape": (lambda output, weights: weights[""], {}),
        "x_rsh1_shape": (lambda output, weights: output.reshape(*output.shape[:2], heads, -1), {"out_width": 0}),
        "x_rsh2_shape": (lambda output, weights: output, {"out_width": 0}),
    }
    for quantity, (arrange, unusual) in arranged.items():
        watched = {} if "out_width" in unusual else {"need_weights": True}
        case = _case(excerpt, quantity, **watched, **unusual)
        yield DocumentedShape(case, excerpt.at(quantity), excerpt.expected[quantity], arrange)
    for quantity, read in OF_PLUG.items():
        yield GivenToPlug(_case(excerpt, quantity), excerpt.at(quantity), excerpt.expected[quantity], read)


def _case(excerpt: Excerpt, quantity: str = "", **unusual: Any) -> FormulaCase:
    """An example's shapes and unseeded numbers; without an output map where its width is 0."""
    inputs, parameters = excerpt.inputs, excerpt.parameters
    batch, queries, query_width = inputs["query_shape"]
    _, keys, key_width = inputs["key_shape"]
    width, heads = parameters.get("num_hiddens") or parameters["d_feat"], parameters["num_heads"]
    biases = [
        bias for bias in BIASES if parameters.get("bias", True) and (bias != "b_output" or "out_width" not in unusual)
    ]
    usual: dict[str, Any] = {
        "out_width": width,
        "mask": partial(_valid, inputs["valid_lens"], keys) if "valid_lens" in inputs else None,
    }
    return asked(
        *excerpt.named(quantity), batch=batch, queries=queries, keys=keys, num_heads=heads, head_width=width // heads,
        query_width=query_width, key_width=key_width, value_width=inputs["value_shape"][2], biases=tuple(biases),
        **{**usual, **unusual},
    )  # fmt: skip


def _valid(lengths: list[int], keys: int, random: Generator) -> Array:
    return valid(lengths, keys)[:, None]
