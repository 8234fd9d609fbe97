"""The contract `transformer`: a factory of encoder–decoders.

    factory(config, weights, *, attention=None, need_weights=False, greedy=None) -> model
    model(source, lengths, target) -> logits

    states  = encoder blocks over positions(source embedding · √d)       b s d
    hidden  = decoder blocks over positions(target embedding · √d)       b t d
    logits  = hidden w_logits + b_logits                                 b t v

An encoder block is x ← norm1(x + attention(x, x)), then x ← norm2(x + ffn(x)); a decoder block is x ← norm1(x +
causal attention(x, x)), x ← norm2(x + attention(x, states)), x ← norm3(x + ffn(x)). Vaswani et al., "Attention is all
you need" (arXiv 1706.03762), as built in the documents, section 11.7.

Axes: `b s` source and `b t` target, tokens as int64; `b` lengths, the number of visible source tokens; `b t v` logits.
Letters: b batch, s source length, t target length, v target vocabulary, d width, f width of the ffn, p = d/heads.

    config           source_vocab, target_vocab, width, heads, ffn_width, encoder_blocks, decoder_blocks, decoding
    weights          plain tensors of one floating dtype by name, as in `shapes(config)`. y = x W + b
    heads            head i has columns i·p to (i+1)·p − 1 of w_query, w_key and w_value; scores are divided by √p
    biases           none in the attention; the ffn, whose activation is ReLU, and the logits have them
    normalisation    after each residual connection, over the width, ε = 10⁻⁵; none after the last block
    positions        added after the embedding is scaled: sin(i/10000^(2j/d)) in columns 2j, its cosine in 2j + 1. Their
                     number is unlimited: no table may end
    angles           computed in float64 for weights in float64, else at least in float32, for any position
    lengths          int64; other integers raise
    padding          encoder and cross-attention see the first `lengths` tokens of a source only; padded positions have
                     states as well, which attend to those tokens
    causal           position i of the target attends to positions ≤ i
    decoding         "full": the whole target at once. "cached": token by token, each attending to the cached earlier
                     ones; the logits are the same
    no decoder       with decoder_blocks 0 the model is an encoder: model(source, lengths) returns its states, b s d,
                     and there are no weights for target and logits
    dropout          none: models are built for inference
    calls            a model keeps nothing between calls, and nothing of another model of its config
    rounding         any order, and each step may be rounded to the weights' dtype: the tolerance of a position's vector
                     is twice the largest error of several models that do so
    accuracy         a convention. "bounded": as under rounding. "measured": quantised so coarsely that no error bound
                     is promised; only bad input is judged, and a benchmark reports the errors
    inputs           never modified, nor are the weights; the output shares no memory with them or later outputs
    strides          any, of inputs and weights
    output           the weights' dtype and device
    need_weights     True: the model returns (output, attention weights), a dictionary of the weights of every attention
                     by name, each b h queries keys in the weights' dtype: `encoder.N.attention`, b h s s,
                     `decoder.N.self_attention`, b h t t, and `decoder.N.cross_attention`, b h t s. They multiply the
                     values: rows sum to 1, and hidden keys have exactly 0. Row i belongs to position i in cached
                     decoding too. Later calls do not change them, and the output is the same as without them
    greedy           a mapping of the tokens `begin` and `end` and of `steps`: the model translates, model(source,
                     lengths) → tokens, b steps, int64. The first step reads the begin token, each further one all
                     tokens before it, and chooses the token of the largest logit, the lowest of equal ones. A
                     translation ends before its first end token; from there on all tokens are `end`. Both ways of
                     decoding give the same tokens. Where two logits differ by less than their tolerances, either token
                     passes, and nothing that follows is judged. With need_weights the model returns (tokens, attention
                     weights), of the decoder those of all `steps`: row i is the step that chose token i, and zeros
                     behind a translation's end
    attention        a backend: an implementation of the contract `attention`, called once for each attention, with
                     tensors b h l p of the weights' dtype, unscaled, and a boolean attn_mask or is_causal where
                     something is hidden; a backend may lack all else. In cached decoding a call has one query, and the
                     keys so far; more only if they are hidden. Decoding the target at once is right, too. Its weights
                     are read off it: after each call it is called again with the identity as values, as many columns
                     at a time as the values have, the last call filled up with zeros
    bad input        raises on weights that are missing, extra, misshapen or of several dtypes; heads that do not divide
                     the width, an odd width; tokens outside their vocabulary; lengths below 1, beyond the source or not
                     int64; batches of different sizes, even if one of them is 1; a target without a decoder, a decoder
                     without a target; `greedy` without a decoder, with tokens outside the target's vocabulary or with
                     steps below 1
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnsuite.cases import Call, configured, declare
from attnsuite.contracts.models import ACCURACY, unbounded

POSITIONAL = ("source", "lengths", "target")
LARGE = 64
"""A case with more tokens needs the feature `large`."""
FEATURES = {
    "bool_mask": "padded sources",
    "causal": "a decoder",
    "cached": "decoding token by token with a cache",
    "weights": "returned attention weights",
    "greedy": "greedy translation",
    "large": "more than 64 tokens",
}


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights by name."""
    width, inner = config["width"], config["ffn_width"]

    def block(name: str, attentions: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
        own: dict[str, tuple[int, ...]] = {}
        for attention in attentions:
            own |= {f"{attention}.w_{role}": (width, width) for role in ("query", "key", "value", "output")}
        own |= {"ffn.w1": (width, inner), "ffn.b1": (inner,), "ffn.w2": (inner, width), "ffn.b2": (width,)}
        for number in range(len(attentions) + 1):
            own |= {f"norm{number + 1}.weight": (width,), f"norm{number + 1}.bias": (width,)}
        return {f"{name}.{rest}": shape for rest, shape in own.items()}

    expected: dict[str, tuple[int, ...]] = {"source_embedding": (config["source_vocab"], width)}
    for number in range(config["encoder_blocks"]):
        expected |= block(f"encoder.{number}", ("attention",))
    if config["decoder_blocks"]:
        expected |= {"target_embedding": (config["target_vocab"], width)}
        for number in range(config["decoder_blocks"]):
            expected |= block(f"decoder.{number}", ("self_attention", "cross_attention"))
        expected |= {"w_logits": (width, config["target_vocab"]), "b_logits": (config["target_vocab"],)}
    return expected


def _large(call: Call) -> bool:
    return any(call.tensors[name].shape[-1] > LARGE for name in ("source", "target") if name in call.tensors)


CONTRACT = declare(
    __name__,
    FEATURES,
    {"need_weights": ("weights",), "greedy": ("greedy",)},
    also={
        "bool_mask": lambda call: bool((call.tensors["lengths"] < call.tensors["source"].shape[-1]).any()),
        "causal": lambda call: call.config is not None and call.config["decoder_blocks"] > 0,
        "cached": configured("decoding", "cached"),
        "large": _large,
    },
    core_needs=frozenset({"bool_mask", "causal"}),
    baseline="eager",
    is_model=True,
    conventions=ACCURACY,
    undefined_reason=unbounded,
    lists={"mutants": "model", "variants": "model.variants", "workloads": "cases.workloads"},
)
