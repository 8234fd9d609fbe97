"""Additive against dot-product scores, and a context that the recurrence waits for against one that follows it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Generator, Tensor

from attnsuite.documents.claims.claim import ABOVE_ONE, SLOWER, Claim, Measured, exactly, number
from attnsuite.documents.claims.counting import largest_bytes, longest_chain
from attnsuite.documents.claims.timing import raced, ratio
from attnsuite.implementations.attention_scores.matmul import attention_scores
from attnsuite.model import Evidence

ITEMS, LENGTH, WIDTH = 8, 128, 64
"""Sentences in a batch, tokens in each, and the width of queries, keys and features."""
STEPS = 48
"""Steps of a decoder."""


def scores(score: str) -> Callable[[], Tensor]:
    """The scores of every query with every key."""
    random = Generator().manual_seed(3)
    query, key = (torch.randn(ITEMS, LENGTH, WIDTH, generator=random) for _ in range(2))
    weights = {name: torch.randn(WIDTH, WIDTH, generator=random) for name in ("w_query", "w_key")}
    weights["w_score"] = torch.randn(WIDTH, generator=random)
    return partial(attention_scores, query, key, score=score, **(weights if score == "additive" else {}))


def time_of_scores() -> Measured:
    """How many times as long additive scores take."""
    calls = {score: scores(score) for score in ("additive", "dot")}
    with torch.no_grad():
        return ratio("additive", "dot", raced(calls))


def memory_of_scores() -> Measured:
    """How many times as large the largest tensor is that additive scores make."""
    with torch.no_grad():
        found = {score: largest_bytes(scores(score)) for score in ("additive", "dot")}
    return number(found["additive"] / found["dot"], ", ".join(f"{score} {found[score]:,} B" for score in found))


def decoder(waits: bool, steps: int = STEPS) -> Callable[[], Tensor]:
    """A recurrent decoder with dot-product scores, of whose weights gradients are wanted.

    Where it waits, the state before asks for the context that the step takes in, as Bahdanau's does; else all states
    are made first, and all of them ask at once.
    """
    random = Generator().manual_seed(4)
    keys, given = (torch.randn(ITEMS, length, WIDTH, generator=random) for length in (LENGTH, steps))
    w_given, w_state, w_context = (
        (torch.randn(WIDTH, WIDTH, generator=random) / WIDTH).requires_grad_() for _ in range(3)
    )

    def attend(query: Tensor) -> Tensor:
        return (query @ keys.mT).softmax(-1) @ keys

    def decode() -> Tensor:
        state, states = keys.new_zeros(ITEMS, 1, WIDTH), []
        for row in given.unsqueeze(2).unbind(1):
            taken = attend(state) @ w_context if waits else 0.0
            state = (row @ w_given + state @ w_state + taken).tanh()
            states.append(state)
        every = torch.cat(states, 1)
        return every if waits else torch.cat([every, attend(every) @ w_context], -1)

    return decode


def time_of_decoders() -> Measured:
    """How many times as long a decoder takes whose recurrence waits for the context."""
    with torch.no_grad():
        return ratio("waits", "follows", raced({"waits": decoder(True), "follows": decoder(False)}))


def chain_of_decoders() -> Measured:
    """How many times as many products have to wait for each other."""
    waits, follows = (longest_chain(decoder(waits)()) for waits in (True, False))
    return number(waits / follows, f"{waits} products in a row against {follows} in {STEPS} steps")


CLAIMS = (
    Claim("scoring/additive_time", "doc-002", "bahdanau-vs-dot", "attention by dot products is faster than Bahdanau's",
          "time of additive scores, as a multiple of that of dot products", SLOWER, Evidence.TIMED, time_of_scores),
    Claim("scoring/additive_memory", "doc-004", "11.3, exercise 3", "additive scores take more memory than dot products",
          "bytes of the largest tensor, as a multiple", ABOVE_ONE, Evidence.EXACT, memory_of_scores),
    Claim("scoring/additive_features", "doc-004", "11.3.4", "additive scores have features of the size (B, n, m, H)",
          "largest tensor of additive scores over all scores", exactly(WIDTH), Evidence.EXACT, memory_of_scores),
    Claim("scoring/waiting_time", "doc-002", "bahdanau-vs-dot", "Bahdanau's is slow because its recurrence waits for the context",
          "time of a decoder that waits, as a multiple of one that attends afterwards, both by dot products", SLOWER,
          Evidence.TIMED, time_of_decoders),
    Claim("scoring/waiting_steps", "doc-002", "bahdanau-vs-dot", "Bahdanau's is slow because its recurrence waits for the context",
          "products that wait for each other, as a multiple", ABOVE_ONE, Evidence.EXACT, chain_of_decoders),
)  # fmt: skip
