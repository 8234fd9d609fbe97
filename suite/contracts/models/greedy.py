"""Greedy decoding in steps, and mutants of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, cat
from torch.nn.functional import pad

from attnsuite.cases.mutants import Mutation, formula, with_result
from attnsuite.contracts.shared import Weights

Greedy = Mapping[str, int]
"""The tokens `begin` and `end`, and the number of `steps`."""
Run = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The logits, b t v, for source, lengths and the tokens so far."""
RunWithWeights = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Weights]]
"""The same, and the weights of every attention by name, b … t s."""


class Translating:
    """A factory of models that return logits, or choose one token after the other."""

    models: Callable[..., tuple[Run, RunWithWeights]]
    """The model of a config and weights, and perhaps a backend, and the same with the weights of every attention."""

    def compute(
        self,
        config: Mapping[str, Any],
        weights: Mapping[str, Tensor],
        *,
        need_weights: bool = False,
        greedy: Greedy | None = None,
        **backend: Any,
    ) -> Callable[..., Any]:
        run, run_with_weights = self.models(config, weights, **backend)
        if greedy is None:
            return run_with_weights if need_weights else run
        options = self.check_greedy(greedy, config["target_vocab"])
        if need_weights:
            return partial(self.translated_with_weights, run, run_with_weights, options)
        return partial(self.translated, run, options)

    def translated(self, run: Run, greedy: Greedy, source: Tensor, lengths: Tensor) -> Tensor:
        """The translation of each source, b steps."""
        end, steps = greedy["end"], greedy["steps"]
        tokens = self.first(source.new_zeros(len(source), 1), greedy)
        for _ in range(self.count(steps)):
            logits = run(source, lengths, self.read_tokens(tokens))[:, -1]
            tokens = cat([tokens, self.pick(logits)[:, None]], 1)
            if self.enough((tokens[:, 1:] == end).any(1)):
                break
        return self.cut(tokens[:, 1:], end, steps)

    def translated_with_weights(
        self, run: Run, run_with_weights: RunWithWeights, greedy: Greedy, source: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Weights]:
        """The same, and the weights of the steps, zeros behind the end of a translation."""
        tokens = self.translated(run, greedy, source, lengths)
        read = pad(tokens[:, :-1], (1, 0), value=greedy["begin"])
        _, weights = run_with_weights(source, lengths, read)
        over = pad((tokens == greedy["end"]).cumsum(1)[:, :-1] > 0, (1, 0))  # b t
        return tokens, {
            name: rows if name.startswith("encoder") else self.behind(rows, over) for name, rows in weights.items()
        }

    @staticmethod
    def check_greedy(greedy: Greedy, vocabulary: int) -> Greedy:
        """Raise for tokens outside the vocabulary and for less than one step; return the argument."""
        if not all(0 <= greedy[name] < vocabulary for name in ("begin", "end")) or greedy["steps"] < 1:
            raise ValueError("a token outside the vocabulary, or less than one step")
        return greedy

    first = formula(lambda zeros, greedy: zeros + greedy["begin"])
    count = staticmethod(lambda steps: steps)
    read_tokens = formula(lambda tokens: tokens)
    pick = formula(lambda logits: logits.argmax(-1))
    enough = staticmethod(lambda ended: bool(ended.all()))
    # the weights of steps, b … t s, with zeros in those behind the end, b t
    behind = formula(lambda rows, over: rows.masked_fill(over.reshape(len(over), *[1] * (rows.dim() - 3), -1, 1), 0.0))

    @staticmethod
    def cut(tokens: Tensor, end: int, steps: int) -> Tensor:
        """All tokens behind the first end token of a row become end tokens, up to `steps`."""
        padded = pad(tokens, (0, steps - tokens.shape[1]), value=end)
        behind = (padded == end).cumsum(1) - (padded == end).long() > 0
        return padded.masked_fill(behind, end)


MUTANTS: dict[str, Mapping[str, Mutation]] = {
    "count": {"one_step_less": Mutation("a translation lacks its last step", lambda steps: max(1, steps - 1))},
    "read_tokens": {"reads_latest_token_alone": Mutation("each step reads only the token before it",
        lambda tokens: tokens[:, -1:])},
    "enough": {"stops_with_first_item": Mutation("all translations stop at the end of the first item's",
        lambda ended: bool(ended[0]))},
    "behind": {"shows_steps_behind_the_end": Mutation(
        "the attention weights of steps behind a translation's end are returned", lambda rows, over: rows)},
    "cut": {
        "fills_with_zeros": Mutation("zeros follow the end token",
            with_result(lambda cut, end: cut.masked_fill((cut == end).cumsum(1) > 1, 0))),
        "as_long_as_needed": Mutation("there are as many columns as the longest translation has tokens",
            lambda tokens, end, steps: Translating.cut(tokens, end, steps)[:, : tokens.shape[1]]),
    },
    "check_greedy": {"clamps_greedy": Mutation(
        "begin and end tokens outside the vocabulary, and less than one step, are clamped",
        lambda greedy, vocabulary: {"begin": min(max(greedy["begin"], 0), vocabulary - 1),
        "end": min(max(greedy["end"], 0), vocabulary - 1), "steps": max(greedy["steps"], 1)})},
}  # fmt: skip
"""By step."""
