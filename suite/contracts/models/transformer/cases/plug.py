"""An attention is plugged in, which records how it is called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from attnsuite.cases import Call
from attnsuite.cases.backends import BackendCase, ExpectedBackendCall, Script
from attnsuite.cases.tensors import PRECISE, Generator, Inputs, dtype_of
from attnsuite.contracts.models.transformer.cases.draws import CACHED, ENCODER, SQUARE, WATCHED, drawn, model


def plug() -> Iterator[BackendCase]:
    """The attention that is given attends wherever the model does."""

    def again(random: Generator) -> Sequence[Inputs]:
        return [drawn(random, lengths=(7, 4, 1)), drawn(random, batch=1, target=3)]

    made = (
        model("plug/called", "in every layer, for all heads and in the weights' dtype", lengths=(7, 4, 1)),
        model("cached/plugged", "decoding token by token asks it as well", CACHED, PRECISE, lengths=(7, 4, 1)),
        model("plug/whole", "sources that are whole need no mask", dtypes=PRECISE, lengths=(7, 7, 7)),
        model("plug/square", "as many items and tokens as heads", SQUARE, PRECISE, batch=4, source=4, target=4,
              lengths=(4, 2, 3, 1)),
        model("encoder/plugged", "in an encoder alone", ENCODER, PRECISE, lengths=(7, 4, 1)),
        model("plug/again", "in a second call, of other sizes", dtypes=PRECISE, calls=again),
        model("plug/weights", "the weights of what is plugged in are read off it, with the identity as values",
              dtypes=PRECISE, lengths=(7, 4, 1), making=WATCHED),
    )  # fmt: skip
    return (BackendCase(case, scripts) for case in made)


def scripts(call: Call, first: Call) -> list[Script]:
    """The encoder's calls of the plug and then the decoder's, of the whole target or token by token.

    Where weights are wanted, those that read them come after each.
    """
    config = first.config or {}
    lengths, source = call.tensors["lengths"].numpy(), call.tensors["source"].shape[1]
    within = np.arange(source) < lengths[:, None, None, None]  # b 1 1 s
    attends = partial(_attends, len(lengths), config["heads"], config["width"], dtype_of(first))
    encoder = [attends(source, source, "padding", within)] * config["encoder_blocks"]
    if "target" not in call.tensors:
        return [encoder]

    def cross(queries: int) -> ExpectedBackendCall:
        return attends(queries, source, "padding", within)

    length, blocks = call.tensors["target"].shape[1], config["decoder_blocks"]
    causal = attends(length, length, "what comes after a token", np.tri(length, dtype=bool))
    whole = [*encoder, *[causal, cross(length)] * blocks]
    if call.need_weights:
        return [[again for each in whole for again in [each] * (1 + -(-each.key[2] // each.value[3]))]]
    found: list[Script] = [whole]
    if config["decoding"] == "cached":
        steps = [attends(1, step + 1, spare_keys=True) for step in range(length)]
        found.append([*encoder, *(each for step in steps for _ in range(blocks) for each in (step, cross(1)))])
    return found


def _attends(
    items: int,
    heads: int,
    width: int,
    dtype: str,
    queries: int,
    keys: int,
    hides: str = "",
    may_attend: np.ndarray | None = None,
    spare_keys: bool = False,
) -> ExpectedBackendCall:
    query, key = ((items, heads, rows, width // heads) for rows in (queries, keys))
    return ExpectedBackendCall(query, key, key, dtype, hides, may_attend, spare_keys=spare_keys)
