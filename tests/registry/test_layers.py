"""Layers, blocks and models with weights of their own: their parts, their weights by role, and what is refused."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnsuite
from attnsuite.model import Status, UsageError
from attnsuite.registry import find, load
from attnsuite.registry.callables import usual_contract
from attnsuite.registry.modules import as_function

Write = Callable[[str, str], Path]
EXAMPLE = Path(__file__).parents[2] / "examples" / "documents" / "doc_004.py"
DOCUMENT: dict[str, Any] = runpy.run_path(str(EXAMPLE))
STANDS = {
    "AdditiveAttention": "additive_attention",
    "PositionWiseFFN": "positionwise_ffn",
    "AddNorm": "add_norm",
    "PatchEmbedding": "patch_embedding",
    "ViTMLP": "positionwise_ffn",
    "ViTBlock": "the block of vision_transformer",
    "ViT": "vision_transformer",
    "TransformerEncoderBlock": "the encoder block of transformer",
    "TransformerEncoder": "the encoder of transformer",
    "TransformerDecoderBlock": "the decoder block of transformer",
    "TransformerDecoder": "the decoder of transformer",
    "Seq2SeqEncoder": "the encoder of seq2seq_attention",
    "Seq2SeqAttentionDecoder": "the decoder of seq2seq_attention",
}
CASES = {"ViTMLP": "gelu/usual", "TransformerDecoder": "sizes/again"}
"""The case of a class; that of the others is plain/usual."""


def says_of(made: Any, contract: str = "", **options: Any) -> str:
    """The line about a class of modules."""
    return as_function(made, made.__name__, contract=contract or usual_contract(made), **options)[1]


@pytest.mark.parametrize("name", STANDS)
def test_a_class_of_the_document_passes_as_its_part(name: str) -> None:
    made = DOCUMENT[name]

    outcomes = attnsuite.check(made, cases=CASES.get(name, "plain/usual"), dtypes="float32")

    assert {outcome.status for outcome in outcomes} == {Status.PASSED}
    says = says_of(made)
    assert says.startswith(f"{name} is tested as {STANDS[name]} in ")
    assert "differs" not in says


def test_what_a_document_does_otherwise_is_said() -> None:
    assert says_of(DOCUMENT["TransformerDecoder"]).endswith("it hides later positions in training mode alone")
    assert says_of(DOCUMENT["TransformerDecoderBlock"]).endswith("so targets are decoded token by token")
    outcomes = attnsuite.check(DOCUMENT["TransformerDecoder"], cases="cached/usual", dtypes="float32")
    assert "cached_position_zero" in outcomes[0].detail


@pytest.mark.parametrize("made", [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer])
def test_a_layer_of_torch_passes(made: type) -> None:
    outcomes = attnsuite.check(made, cases=("plain/usual", "plain/square", "padding/one_item"), dtypes="float32")

    assert [outcome.status for outcome in outcomes] == [Status.PASSED] * 3
    assert "self_attn.in_proj" in says_of(made)


def _changed(name: str, **methods: Any) -> type:
    """A class of the document with other methods."""
    return type(name, (DOCUMENT[name],), methods)


def _norm_used_twice(self: Any, X: Tensor, valid_lens: Tensor | None) -> Tensor:
    Y = self.addnorm1(X, self.attention(X, X, X, valid_lens))
    return self.addnorm1(Y, self.ffn(Y))  # type: ignore[no-any-return]


def _without_positions(self: Any, X: Tensor) -> Tensor:
    X = self.patch_embedding(X)
    X = torch.cat((self.cls_token.expand(X.shape[0], -1, -1), X), 1)
    return self.head(self.blks(X)[:, 0])  # type: ignore[no-any-return]


def _token_without_position(self: Any, X: Tensor) -> Tensor:
    X = self.patch_embedding(X) + self.pos_embedding[:, 1:]
    X = torch.cat((self.cls_token.expand(X.shape[0], -1, -1), X), 1)
    return self.head(self.blks(X)[:, 0])  # type: ignore[no-any-return]


def _state_of_this_step(self: Any, X: Tensor, state: Any) -> Any:
    memory, hidden, lengths = state
    X = self.embedding(X).permute(1, 0, 2)
    outputs = []
    for x in X:
        query = hidden[-1][:, None] * 0 + memory[:, :1]
        context = self.attention(query, memory, memory, lengths)
        out, hidden = self.rnn(torch.cat((context, x[:, None]), -1).permute(1, 0, 2), hidden)
        outputs.append(out)
    return self.dense(torch.cat(outputs)).permute(1, 0, 2), state


WRONG = {
    "one normalisation used twice": _changed("TransformerEncoderBlock", forward=_norm_used_twice),
    "no positions": _changed("ViT", forward=_without_positions),
    "a class token without a position": _changed("ViT", forward=_token_without_position),
    "the query is not the state": _changed("Seq2SeqAttentionDecoder", forward=_state_of_this_step),
}


@pytest.mark.parametrize("made", WRONG.values(), ids=WRONG)
def test_a_wrong_module_fails(made: type) -> None:
    outcomes = attnsuite.check(made, cases="plain/usual", dtypes="float32")

    assert {outcome.status for outcome in outcomes} == {Status.FAILED}
    assert says_of(made).endswith("its result differs from the contract's formula in a trial call")


def test_parameters_that_forward_does_not_use_are_named() -> None:
    says = says_of(WRONG["one normalisation used twice"])

    assert "forward does not use addnorm2.ln.weight, addnorm2.ln.bias" in says


class Block(nn.Module):
    """An encoder block of linear maps whose names show nothing."""

    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__()
        self.heads = heads
        self.a, self.b, self.c, self.d = (nn.Linear(width, width) for _ in range(4))
        self.norm1, self.up, self.down, self.norm2 = (
            nn.LayerNorm(width), nn.Linear(width, ffn), nn.Linear(ffn, width), nn.LayerNorm(width)
        )  # fmt: skip

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for layer in (self.a, self.b, self.c))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask, -torch.inf)
        x = self.norm1(x + self.d((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)))
        output: Tensor = self.norm2(x + self.down(self.up(x).relu()))
        return output


def test_roles_and_the_form_of_a_mask_are_found() -> None:
    says = says_of(Block, "transformer")

    assert "attention.q = a, attention.k = b, attention.v = c, attention.o = d, norm1.weight = norm1" in says
    assert "differs" not in says


def test_the_user_names_roles() -> None:
    class Other(Block):
        def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
            self.a, self.b = self.b, self.a
            try:
                return super().forward(x, mask)
            finally:
                self.a, self.b = self.b, self.a

    assert "differs" in says_of(Other, "transformer")
    assert "differs" not in says_of(Other, "transformer", weights={"q": "b", "k": "a", "v": "c", "o": "d"})


class NeedsCache(Block):
    def forward(self, x: Tensor, cache: Tensor) -> Tensor:  # type: ignore[override]
        return x


class OtherShapes(Block):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        output: Tensor = self.up(self.a(x)) @ x
        return output


class NeedsState(DOCUMENT["TransformerDecoderBlock"]):  # type: ignore[misc]
    def forward(self, X: Tensor, state: Any) -> Any:
        return super().forward(X + state[2][0][:, :1], state)


class WithoutNorm(Block):
    def __init__(self, width: int, heads: int, ffn: int) -> None:
        super().__init__(width, heads, ffn)
        self.norm2 = nn.Identity()  # type: ignore[assignment]


class LazyOfAnotherInput(DOCUMENT["PositionWiseFFN"]):  # type: ignore[misc]
    def forward(self, X: Tensor) -> Tensor:
        output: Tensor = super().forward(X.flatten())
        return output


REFUSED = {
    NeedsCache: "NeedsCache.forward needs cache, which no test of transformer gives: give it a default",
    OtherShapes: "OtherShapes.forward raises RuntimeError: ",
    WithoutNorm: "WithoutNorm has parameters a, b, c, d, norm1, up, down: no weights for norm2.weight, norm2.bias",
    NeedsState: "NeedsState.forward raises TypeError: 'NoneType' object is not subscriptable; its first "
    "state is that of init_state(states, lengths), else [states, lengths, [None] × blocks]",
    LazyOfAnotherInput: "LazyOfAnotherInput has parameters dense1, dense2: no role for dense1.weight",
}


@pytest.mark.parametrize(("made", "says"), REFUSED.items(), ids=[made.__name__ for made in REFUSED])
def test_a_module_that_cannot_be_tested_is_refused_in_one_line(made: type, says: str) -> None:
    contract = "positionwise_ffn" if made is LazyOfAnotherInput else "transformer"
    with pytest.raises(UsageError, match=re.escape(says)) as refused:
        attnsuite.check(made, contract=contract, cases="plain/usual", dtypes="float32")

    assert "\n" not in str(refused.value)


HELPERS = """
import torch
from torch import nn


def scaled(q, k, v):
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, -1) @ v


class Part(nn.Linear): ...


class Mine(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (Part(width, width) for _ in range(4))

    def forward(self, x):
        split = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        return self.o(scaled(*split).transpose(1, 2).flatten(2))
"""


def test_a_module_next_to_its_helpers_is_found(write: Write) -> None:
    (declaration,) = find([str(write("kernel.py", HELPERS))])

    assert (declaration.contract, declaration.function) == ("multi_head_attention", "Mine")
    assert load(declaration).declaration.conversion.startswith("Mine is tested as multi_head_attention")


def test_a_second_function_that_nothing_uses_is_no_helper(write: Write) -> None:
    (declaration,) = find([str(write("kernel.py", f"{HELPERS}\n\ndef attend(query, key, value): ...\n"))])

    assert declaration.contract == "attention"


@pytest.mark.parametrize(
    ("name", "contract"),
    [
        ("ViTMLP", "positionwise_ffn"),
        ("ViTBlock", "vision_transformer"),
        ("AddNorm", "add_norm"),
        ("PatchEmbedding", "patch_embedding"),
        ("Seq2SeqEncoder", "seq2seq_attention"),
        ("TransformerDecoderBlock", "transformer"),
        ("MultiHeadAttention", "multi_head_attention"),
    ],
)
def test_the_contract_of_a_class_is_known_from_its_source(name: str, contract: str) -> None:
    (declaration,) = find([f"{EXAMPLE}:{name}"])

    assert declaration.contract == contract
