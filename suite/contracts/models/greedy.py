"""Greedy decoding in small steps, and mistakes in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnsuite.cases.mutants import Mutation, formula, with_result
from attnsuite.contracts.shown import Found

Greedy = Mapping[str, int]
"""The tokens `begin` and `end`, and how many `steps` there are at most."""
Run = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The logits, b t v, of source, lengths and the tokens so far."""

Watched = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Found]]
"""The same, and the weights of every attention by name, b … t s."""


class Translating:
    """The steps by which a model that gives logits chooses one token after the other."""

    def translated(self, run: Run, greedy: Greedy, source: Tensor, lengths: Tensor) -> Tensor:
        """The translation of each source, b n, for n steps at most."""
        end, steps = greedy["end"], greedy["steps"]
        tokens = self.first(source.new_zeros(len(source), 1), greedy)
        for _ in range(self.count(steps)):
            logits = self.latest(run(source, lengths, self.fed(tokens)))
            tokens = torch.cat([tokens, self.pick(logits, tokens, end)[:, None]], 1)
            if self.enough((tokens[:, 1:] == end).any(1)):
                break
        return self.cut(tokens[:, 1:], end, steps, greedy["begin"])

    def translated_and_shown(
        self, run: Run, watched: Watched, greedy: Greedy, source: Tensor, lengths: Tensor
    ) -> tuple[Tensor, Found]:
        """The same, and the weights of the model where it reads what it has said, up to the end."""
        tokens = self.translated(run, greedy, source, lengths)
        _, shown = watched(source, lengths, self.reread(tokens, greedy["begin"]))
        over = pad((tokens == greedy["end"]).cumsum(1)[:, :-1] > 0, (1, 0))  # b t
        return tokens, {
            name: rows if name.startswith("encoder") else self.behind(rows, over) for name, rows in shown.items()
        }

    @staticmethod
    def check_greedy(greedy: Greedy, vocabulary: int) -> Greedy:
        """Raise for tokens that are none, and for no steps; return what was given."""
        if not all(0 <= greedy[name] < vocabulary for name in ("begin", "end")) or greedy["steps"] < 1:
            raise ValueError("no such token, or no steps")
        return greedy

    first = formula(lambda zeros, greedy: zeros + greedy["begin"])
    count = staticmethod(lambda steps: steps)
    fed = formula(lambda tokens: tokens)
    latest = formula(lambda logits: logits[:, -1])
    pick = formula(lambda logits, tokens, end: logits.argmax(-1))
    enough = staticmethod(lambda ended: bool(ended.all()))
    reread = formula(lambda tokens, begin: pad(tokens[:, :-1], (1, 0), value=begin))
    # the weights of steps, b … t s, where some are over, b t
    behind = formula(lambda rows, over: rows.masked_fill(over.reshape(len(over), *[1] * (rows.dim() - 3), -1, 1), 0.0))
    cut = formula(lambda tokens, end, steps, begin: ended_by(end, tokens, end, steps))


def ended_by(filler: int, tokens: Tensor, end: int, steps: int) -> Tensor:
    """What stands behind the first end token of each row, up to so many steps, is the filler."""
    whole = pad(tokens, (0, steps - tokens.shape[1]), value=end)
    behind = (whole == end).cumsum(1) - (whole == end).long() > 0
    return whole.masked_fill(behind, filler)


def sampled(logits: Tensor, tokens: Tensor, end: int) -> Tensor:
    """Drawn by their probabilities."""
    return torch.multinomial(logits.softmax(-1), 1)[:, 0]


def unlike_before(logits: Tensor, tokens: Tensor, end: int) -> Tensor:
    """The best of the tokens that the row does not have yet."""
    seen = torch.zeros_like(logits, dtype=torch.bool).scatter(1, tokens[:, 1:], True)
    return logits.masked_fill(seen, -torch.inf).argmax(-1)


def without_end(logits: Tensor, tokens: Tensor, end: int) -> Tensor:
    """The best of the tokens that end nothing."""
    return logits.masked_fill(torch.arange(logits.shape[-1]) == end, -torch.inf).argmax(-1)


def begin_again(tokens: Tensor) -> Tensor:
    """The latest token is the begin token."""
    return torch.cat([tokens[:, 1:], tokens[:, :1]], 1)


def one_earlier(tokens: Tensor, end: int, steps: int, begin: int) -> Tensor:
    """Cut before the last token in front of the end."""
    kept = ended_by(end, tokens, end, steps)
    return kept.masked_fill(pad(kept, (0, 1), value=end)[:, 1:] == end, end)


MUTATIONS: dict[str, Mapping[str, Mutation]] = {
    "first": {
        "begins_with_end": Mutation("decoding begins with the end token", lambda zeros, greedy: zeros + greedy["end"]),
        "begins_with_zero": Mutation(
            "decoding begins with the token 0, whatever is given", lambda zeros, greedy: zeros
        ),
    },
    "count": {
        "one_step_less": Mutation("a translation has one step less than it may have", lambda steps: max(1, steps - 1)),
    },
    "fed": {
        "reads_latest_token_alone": Mutation(
            "each step reads the token before it alone", lambda tokens: tokens[:, -1:]
        ),
        "reads_begin_in_every_step": Mutation(
            "each step reads the begin token in place of the token before", begin_again
        ),
        "reads_one_token_late": Mutation(
            "the token before is not read, but the one before that",
            with_result(lambda tokens: tokens[:, : max(1, tokens.shape[1] - 1)]),
        ),
    },
    "latest": {
        "chooses_by_first_logits": Mutation(
            "each token is chosen by the logits of the first step", lambda logits: logits[:, 0]
        )
    },
    "pick": {
        "samples": Mutation("tokens are drawn by their probabilities, not the likeliest", sampled),
        "picks_second_best": Mutation(
            "the second best token is chosen", lambda logits, tokens, end: logits.topk(2, -1).indices[:, 1]
        ),
        "picks_no_token_twice": Mutation("no token is chosen twice in a row of tokens", unlike_before),
        "never_ends": Mutation("the end token is never chosen", without_end),
    },
    "enough": {
        "stops_with_the_first": Mutation(
            "all translations stop where one of them has ended", lambda ended: bool(ended.any())
        ),
        "stops_with_first_item": Mutation(
            "all translations stop where the first item's has ended", lambda ended: bool(ended[0])
        ),
    },
    "cut": {
        "goes_on_behind_the_end": Mutation(
            "what a model says behind the end token is not cut off",
            lambda tokens, end, steps, begin: pad(tokens, (0, steps - tokens.shape[1]), value=end),
        ),
        "fills_with_zeros": Mutation(
            "behind the end token there are zeros",
            lambda tokens, end, steps, begin: ended_by(0, tokens, end, steps),
        ),
        "loses_token_before_end": Mutation("the token in front of the end token is cut off, too", one_earlier),
        "keeps_begin": Mutation(
            "a translation starts with the begin token",
            lambda tokens, end, steps, begin: pad(ended_by(end, tokens, end, steps), (1, -1), value=begin),
        ),
        "as_long_as_needed": Mutation(
            "there are as many columns as the longest translation has tokens",
            lambda tokens, end, steps, begin: ended_by(end, tokens, end, steps)[:, : tokens.shape[1]],
        ),
        "int32_tokens": Mutation("tokens are int32", with_result(lambda tokens: tokens.int())),
    },
    "reread": {
        "shows_steps_of_their_own_tokens": Mutation(
            "the attention weights beside a translation are those of steps that read the token which they choose",
            lambda tokens, begin: tokens,
        )
    },
    "behind": {
        "shows_steps_behind_the_end": Mutation(
            "beside a translation the attention weights of steps behind its end are shown", lambda rows, over: rows
        )
    },
    "check_greedy": {
        "clamps_greedy": Mutation(
            "a begin or end token that is none, and no steps, are accepted as the nearest that there is",
            lambda greedy, vocabulary: {
                "begin": min(max(greedy["begin"], 0), vocabulary - 1),
                "end": min(max(greedy["end"], 0), vocabulary - 1),
                "steps": max(greedy["steps"], 1),
            },
        )
    },
}
"""By the step that is wrong."""
