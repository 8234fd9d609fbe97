"""Mistakes in the attention weights that are shown."""

from __future__ import annotations

import torch

from attnsuite.cases.mutants import Mutation, first_for_all, mutants, turned, with_result
from attnsuite.contracts import shown
from attnsuite.contracts.models.seq2seq_attention.mutants.staged import Recurrent
from attnsuite.contracts.softmax import masked

SHOWN = mutants(
    Recurrent,
    shown={
        "shows_scores": Mutation(
            "scores are shown in place of attention weights", lambda shares, scores, allowed: scores
        ),
        "shows_powers": Mutation(
            "exponentials are shown in place of attention weights: they are not divided by their sum",
            lambda shares, scores, allowed: masked(scores - scores.amax(-1, keepdim=True), allowed).exp(),
        ),
        "shows_unmasked_weights": Mutation(
            "the attention weights that are shown are those without lengths and window",
            lambda shares, scores, allowed: scores.softmax(-1),
        ),
        "shows_faint_weights_of_hidden_keys": Mutation(
            "positions that are hidden have a weight that is shown, of 10⁻⁹",
            with_result(lambda shares: shares.clamp_min(1e-9)),
        ),
        "shows_equal_weights_of_empty_rows": Mutation(
            "steps that may attend to nothing show equal weights",
            with_result(
                lambda shares, allowed: shares.masked_fill(~allowed.any(-1, keepdim=True), 1 / shares.shape[-1])
            ),
            "documents, E21",
        ),
        "shows_first_item": Mutation(
            "the attention weights that are shown are the first item's", with_result(first_for_all())
        ),
        "shows_rounded_weights": Mutation(
            "the attention weights that are shown are rounded to whole thousandths",
            with_result(lambda shares: (shares * 1000).round() / 1000),
        ),
    },
    in_rows={
        "shows_last_step": Mutation(
            "the attention weights of the last step alone are shown", lambda steps: steps[-1][:, None]
        ),
        "shows_steps_first": Mutation("attention weights come step by step, t b s", torch.stack),
        "shows_steps_of_one_key": Mutation(
            "attention weights keep an axis for the one query of a step, b t 1 s",
            lambda steps: torch.stack(steps, 1)[:, :, None],
        ),
        "shows_turned_weights": Mutation(
            "steps and positions are swapped in the attention weights that are shown where there are as many",
            with_result(turned),
        ),
        "shows_late_steps": Mutation(
            "the attention weights of each step are shown one step late", with_result(lambda found: found.roll(1, 1))
        ),
    },
    named={
        "shows_other_name": Mutation(
            "the attention weights are called encoder.attention",
            lambda found: {f"encoder.{name}": each for name, each in found.items()},
        ),
        "shows_a_tensor": Mutation("attention weights are a tensor without a name", lambda found: found["attention"]),
    },
    recalled=shown.SHOWN["recalled"],
)
