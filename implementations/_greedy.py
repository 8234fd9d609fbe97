"""Greedy translation: each token is the likeliest one after the tokens before it, up to the end token."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

Step = Callable[[Tensor], Tensor]
"""The logits of the next token, b v, by the latest token of each item, b. It stores the tokens before."""


def check_greedy(greedy: Mapping[str, int], vocabulary: int) -> None:
    """Raise ValueError for tokens outside the vocabulary, and for less than one step."""
    for name, least, most in (("begin", 0, vocabulary - 1), ("end", 0, vocabulary - 1), ("steps", 1, None)):
        number = greedy.get(name)
        if type(number) is not int or number < least or (most is not None and number > most):
            expected = f"from {least}" if most is None else f"from {least} to {most}"
            raise ValueError(f"greedy's {name} is {number!r}, expected an integer {expected}")


def translation(step: Step, greedy: Mapping[str, int], like: Tensor) -> Tensor:
    """The tokens of each item of the source, b steps; `end` from where a translation ends on. `like` is the source."""
    end = greedy["end"]
    tokens = like.new_full((len(like), greedy["steps"]), end)
    latest = like.new_full((len(like),), greedy["begin"])
    ended = latest != latest
    for number in range(greedy["steps"]):
        latest = step(latest).argmax(-1)
        ended = ended | (latest == end)
        tokens[:, number] = latest.masked_fill(ended, end)
        if ended.all():
            break
    return tokens


def with_weights(
    translate: Callable[[Tensor, Tensor], Tensor],
    run_with_weights: Callable[..., tuple[Tensor, dict[str, Tensor]]],
    greedy: Mapping[str, int],
) -> Callable[[Tensor, Tensor], tuple[Tensor, dict[str, Tensor]]]:
    """Translations, and the attention weights of their steps: those of the model that reads the translation.

    Steps behind a translation's end have zeros. The attentions of an encoder have no steps.
    """

    def translated(source: Tensor, lengths: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        tokens = translate(source, lengths)
        _, weights = run_with_weights(source, lengths, functional.pad(tokens[:, :-1], (1, 0), value=greedy["begin"]))
        over = functional.pad((tokens == greedy["end"]).cumsum(1)[:, :-1] > 0, (1, 0))  # b steps
        for name, rows in weights.items():
            if not name.startswith("encoder"):
                weights[name] = rows.masked_fill(over.view(len(rows), *[1] * (rows.dim() - 3), -1, 1), 0.0)
        return tokens, weights

    return translated


def by_whole_targets(model: Callable[..., Tensor], greedy: Mapping[str, int]) -> Callable[[Tensor, Tensor], Tensor]:
    """The translations of a model of logits, b t v: each step reads all tokens before it."""

    def translate(source: Tensor, lengths: Tensor) -> Tensor:
        tokens: list[Tensor] = []

        def step(latest: Tensor) -> Tensor:
            tokens.append(latest)
            return model(source, lengths, torch.stack(tokens, 1))[:, -1]

        return translation(step, greedy, source)

    return translate
