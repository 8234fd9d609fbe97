"""The contract `seq2seq_attention`: a factory of recurrent encoder–decoders with attention between them.

    factory(config, weights, *, need_weights=False, greedy=None) -> model
    model(source, lengths, target) -> logits

    h_j    = encoder(source embedding_j, h_{j−1}), h_{−1} = 0            the top layer's states: memory, b s d
    c_t    = Σ_j softmax_j(score(s_{t−1}, h_j)) h_j                      context, b d
    s_t    = decoder([c_t, target embedding_t], s_{t−1}), s_{−1} = h     the encoder's final states, layer by layer
    logits = s_t w_logits + b_logits                                     the top layer's s_t, b t v

Axes: `b s` source and `b t` target, tokens as int64; `b` lengths, the number of visible source positions;
`b t v` logits (b batch, s source length, t target length, v target vocabulary, d width of every state). Bahdanau, Cho
and Bengio, "Neural machine translation by jointly learning to align and translate" (arXiv 1409.0473), as built in the
documents, section 11.4: the encoder reads in one direction, and the decoder begins with its final states.

    config           source_vocab, target_vocab, embedding, hidden (d), layers, score, cell, window
    weights          plain tensors of one floating dtype by name, as in `shapes(config)`. y = x W + b
    score            "additive": tanh(query w_query + key w_key) · w_score, neither biased nor scaled;
                     "dot": query · key, as documents, doc-002, compares; "scaled_dot": that divided by √d, as the
                     second exercise of documents, section 11.4, has it. Dot products have no weights
    cell             "gru": r, z = σ(x W + b + s U + c), n = tanh(x W + b + r ⊙ (s U + c)), s ← (1 − z) ⊙ n + z ⊙ s;
                     "lstm": i, f, o = σ(x W + b + s U + c), g = tanh(the same), m ← f ⊙ m + i ⊙ g, s ← o ⊙ tanh(m).
                     Columns in the order r z n and i f g o, each with two biases: b with W, c with U
    gates            the reset gate is applied after the product with U, and to its bias; the update gate keeps the old
                     state: both as PyTorch and cuDNN have it, unlike the paper's appendix
    query            the decoder's state of the previous step (documents, E28), of the top layer, exactly; in an LSTM s,
                     not m
    keys, values     both the top layer's states h: the keys are h itself
    first state      the encoder's final states, after the last position of the source, padding included: the
                     encoder runs over all positions, whatever the lengths. An LSTM hands on m as well
    lengths          positions j ≥ length get no weight; they do pass through the encoder
    window           None: all positions. D: step t attends to positions t − D to t + D alone, 2D + 1 of them, cut where
                     the source ends (local attention; documents, E12)
    empty row        a step without visible positions, because its window lies beyond the length: the context is zeros
    decoder's input  context first, then the embedding
    target           teacher forcing: step t reads target_t, and its logits are for what follows
    need_weights     True: the model returns (output, attention weights), the dictionary of `attention` alone, b t s in
                     the weights' dtype: row t has the weights of step t. It sums to 1, or to 0 without visible
                     positions; hidden positions have exactly 0. Later calls do not change the weights, and the logits
                     are the same as without them
    greedy           a mapping of the tokens `begin` and `end` and of `steps`: the model translates, model(source,
                     lengths) → tokens, b steps, int64. The first step reads the begin token, each further one the token
                     before it, and chooses the token of the largest logit, the lowest of equal ones. A translation ends
                     before its first end token; from there on all tokens are `end`. Where two logits differ by less
                     than their tolerances, either token passes, and nothing that follows is judged. With need_weights
                     the model returns (tokens, attention weights): row t is the step that chose token t, and zeros
                     behind a translation's end
    dropout          none: models are built for inference
    calls            a model keeps nothing between calls, and nothing of another model of its config
    rounding         any order, and each step may be rounded to the weights' dtype: the tolerance of a position's logits
                     is twice the largest error of several models that do so
    inputs           never modified, nor are the weights; the output shares no memory with them or later outputs
    strides          any, of inputs and weights
    output           the weights' dtype and device
    no steps         a target of 0 steps has logits of 0 steps, b 0 v. Not tested: a loop may have nothing to join
    bad input        raises on weights that are missing, extra, misshapen or of several dtypes; an unknown score or
                     cell, no layers, a negative window; tokens outside their vocabulary; lengths below 1 or beyond the
                     source, or not int64; batches of different sizes; `greedy` with tokens outside the target's
                     vocabulary or steps below 1. Nothing is broadcast, and no dtype is converted
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnsuite.cases import configured, declare

POSITIONAL = ("source", "lengths", "target")
SCORES = ("additive", "dot", "scaled_dot")
GATES = {"gru": 3, "lstm": 4}
FEATURES = {
    "dot": "scores that are dot products",
    "lstm": "LSTM cells",
    "window": "attention to a window of the source",
    "weights": "returned attention weights",
    "greedy": "greedy translation",
}


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """The shapes of the weights by name."""
    embedding, hidden = config["embedding"], config["hidden"]
    gates = GATES[config["cell"]] * hidden

    def stack(name: str, width: int) -> dict[str, tuple[int, ...]]:
        own: dict[str, tuple[int, ...]] = {}
        for layer in range(config["layers"]):
            own[f"{name}.{layer}.w_input"] = (hidden if layer else width, gates)
            own[f"{name}.{layer}.w_hidden"] = (hidden, gates)
            own[f"{name}.{layer}.b_input"] = own[f"{name}.{layer}.b_hidden"] = (gates,)
        return own

    attention = {"w_query": (hidden, hidden), "w_key": (hidden, hidden), "w_score": (hidden,)}
    return {
        "source_embedding": (config["source_vocab"], embedding),
        **stack("encoder", embedding),
        **{f"attention.{name}": shape for name, shape in attention.items() if config["score"] == "additive"},
        "target_embedding": (config["target_vocab"], embedding),
        **stack("decoder", hidden + embedding),
        "w_logits": (hidden, config["target_vocab"]),
        "b_logits": (config["target_vocab"],),
    }


CONTRACT = declare(
    __name__,
    FEATURES,
    {"need_weights": ("weights",), "greedy": ("greedy",)},
    also={
        "dot": configured("score", *SCORES[1:]),
        "lstm": configured("cell", "lstm"),
        "window": lambda call: call.config is not None and call.config["window"] is not None,
    },
    baseline="eager",
    is_model=True,
    lists={"mutants": "model", "variants": "model.variants", "workloads": "cases.workloads"},
)
