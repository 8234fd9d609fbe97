"""Mistakes in the attention weights that are shown."""

from __future__ import annotations

import torch

from attnsuite.cases.mutants import Wrong, first_for_all, mutants, rows, then, turned
from attnsuite.contracts import shown
from attnsuite.contracts.models.seq2seq_attention.deviations.staged import Recurrent
from attnsuite.contracts.softmax import masked

SHOWN = mutants(
    Recurrent,
    shown=rows(
        shows_scores=Wrong("scores are shown in place of attention weights", lambda shares, scores, allowed: scores),
        shows_powers=Wrong(
            "exponentials are shown in place of attention weights: they are not divided by their sum",
            lambda shares, scores, allowed: masked(scores - scores.amax(-1, keepdim=True), allowed).exp(),
        ),
        shows_unmasked_weights=Wrong(
            "the attention weights that are shown are those without lengths and window",
            lambda shares, scores, allowed: scores.softmax(-1),
        ),
        shows_faint_weights_of_hidden_keys=Wrong(
            "positions that are hidden have a weight that is shown, of 10⁻⁹",
            then(lambda shares: shares.clamp_min(1e-9)),
        ),
        shows_equal_weights_of_empty_rows=Wrong(
            "steps that may attend to nothing show equal weights",
            then(lambda shares, allowed: shares.masked_fill(~allowed.any(-1, keepdim=True), 1 / shares.shape[-1])),
            "documents, E21",
        ),
        shows_first_item=Wrong("the attention weights that are shown are the first item's", then(first_for_all())),
        shows_rounded_weights=Wrong(
            "the attention weights that are shown are rounded to whole thousandths",
            then(lambda shares: (shares * 1000).round() / 1000),
        ),
    ),
    in_rows=rows(
        shows_last_step=Wrong(
            "the attention weights of the last step alone are shown", lambda steps: steps[-1][:, None]
        ),
        shows_steps_first=Wrong("attention weights come step by step, t b s", torch.stack),
        shows_steps_of_one_key=Wrong(
            "attention weights keep an axis for the one query of a step, b t 1 s",
            lambda steps: torch.stack(steps, 1)[:, :, None],
        ),
        shows_turned_weights=Wrong(
            "steps and positions are swapped in the attention weights that are shown where there are as many",
            then(turned),
        ),
        shows_late_steps=Wrong(
            "the attention weights of each step are shown one step late", then(lambda found: found.roll(1, 1))
        ),
    ),
    named=rows(
        shows_other_name=Wrong(
            "the attention weights are called encoder.attention",
            lambda found: {f"encoder.{name}": each for name, each in found.items()},
        ),
        shows_a_tensor=Wrong("attention weights are a tensor without a name", lambda found: found["attention"]),
    ),
    recalled=shown.SHOWN["recalled"],
)
