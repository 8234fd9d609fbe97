"""Greedy decoding in small steps, and mistakes in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnsuite.cases.mutants import Wrong, formula, rows, then
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


MISTAKES: dict[str, Mapping[str, Wrong]] = {
    "first": rows(
        begins_with_end=Wrong("decoding begins with the end token", lambda zeros, greedy: zeros + greedy["end"]),
        begins_with_zero=Wrong("decoding begins with the token 0, whatever is given", lambda zeros, greedy: zeros),
    ),
    "count": rows(
        one_step_less=Wrong("a translation has one step less than it may have", lambda steps: max(1, steps - 1)),
    ),
    "fed": rows(
        reads_latest_token_alone=Wrong("each step reads the token before it alone", lambda tokens: tokens[:, -1:]),
        reads_begin_in_every_step=Wrong("each step reads the begin token in place of the token before", begin_again),
        reads_one_token_late=Wrong(
            "the token before is not read, but the one before that",
            then(lambda tokens: tokens[:, : max(1, tokens.shape[1] - 1)]),
        ),
    ),
    "latest": rows(
        chooses_by_first_logits=Wrong(
            "each token is chosen by the logits of the first step", lambda logits: logits[:, 0]
        )
    ),
    "pick": rows(
        samples=Wrong("tokens are drawn by their probabilities, not the likeliest", sampled),
        picks_second_best=Wrong(
            "the second best token is chosen", lambda logits, tokens, end: logits.topk(2, -1).indices[:, 1]
        ),
        picks_no_token_twice=Wrong("no token is chosen twice in a row of tokens", unlike_before),
        never_ends=Wrong("the end token is never chosen", without_end),
    ),
    "enough": rows(
        stops_with_the_first=Wrong(
            "all translations stop where one of them has ended", lambda ended: bool(ended.any())
        ),
        stops_with_first_item=Wrong(
            "all translations stop where the first item's has ended", lambda ended: bool(ended[0])
        ),
    ),
    "cut": rows(
        goes_on_behind_the_end=Wrong(
            "what a model says behind the end token is not cut off",
            lambda tokens, end, steps, begin: pad(tokens, (0, steps - tokens.shape[1]), value=end),
        ),
        fills_with_zeros=Wrong(
            "behind the end token there are zeros",
            lambda tokens, end, steps, begin: ended_by(0, tokens, end, steps),
        ),
        loses_token_before_end=Wrong("the token in front of the end token is cut off, too", one_earlier),
        keeps_begin=Wrong(
            "a translation starts with the begin token",
            lambda tokens, end, steps, begin: pad(ended_by(end, tokens, end, steps), (1, -1), value=begin),
        ),
        as_long_as_needed=Wrong(
            "there are as many columns as the longest translation has tokens",
            lambda tokens, end, steps, begin: ended_by(end, tokens, end, steps)[:, : tokens.shape[1]],
        ),
        int32_tokens=Wrong("tokens are int32", then(lambda tokens: tokens.int())),
    ),
    "reread": rows(
        shows_steps_of_their_own_tokens=Wrong(
            "the attention weights beside a translation are those of steps that read the token which they choose",
            lambda tokens, begin: tokens,
        )
    ),
    "behind": rows(
        shows_steps_behind_the_end=Wrong(
            "beside a translation the attention weights of steps behind its end are shown", lambda rows, over: rows
        )
    ),
    "check_greedy": rows(
        clamps_greedy=Wrong(
            "a begin or end token that is none, and no steps, are accepted as the nearest that there is",
            lambda greedy, vocabulary: {
                "begin": min(max(greedy["begin"], 0), vocabulary - 1),
                "end": min(max(greedy["end"], 0), vocabulary - 1),
                "steps": max(greedy["steps"], 1),
            },
        )
    ),
}
"""By the step that is wrong."""
