"""Mistakes in how an attention that is plugged in is asked, and in what becomes of its answer."""

from __future__ import annotations

from attnsuite.cases.mutants import Wrong, mutants, rows
from attnsuite.contracts import asking_plugs
from attnsuite.contracts.asking_plugs import left_out
from attnsuite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead

MISTAKES = mutants(
    MultiHead,
    plug=rows(ignores_the_plug=Wrong("an attention that is plugged in is not called", lambda attention: None)),
    to_plug=rows(
        widens_for_the_plug=Wrong(
            "an attention that is plugged in is given float32 for half types",
            lambda heads, dtype: heads,
            "",
            ("float16",),
        )
    ),
    needed=rows(
        plug_without_dropout=Wrong("the attention that is plugged in is called without dropout", left_out("dropout_p")),
        plug_without_causal=Wrong(
            "the attention that is plugged in is called without the causal rule", left_out("is_causal")
        ),
        plug_without_mask=Wrong("the attention that is plugged in is called without the mask", left_out("attn_mask")),
        plug_given_every_argument=Wrong(
            "the attention that is plugged in is given arguments that the call does not need", lambda given: given
        ),
    ),
    ask={**asking_plugs.MISTAKES, **asking_plugs.MASKED},
)
