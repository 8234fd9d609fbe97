"""Mistakes in how an attention that is plugged in is asked, and in what becomes of its answer."""

from __future__ import annotations

from attnsuite.cases.mutants import Mutation, mutants
from attnsuite.contracts import asking_plugs
from attnsuite.contracts.asking_plugs import left_out
from attnsuite.contracts.blocks.multi_head_attention.mutants.staged import MultiHead

MUTANTS = mutants(
    MultiHead,
    plug={"ignores_the_plug": Mutation("an attention that is plugged in is not called", lambda attention: None)},
    to_plug={
        "widens_for_the_plug": Mutation(
            "an attention that is plugged in is given float32 for half types",
            lambda heads, dtype: heads,
            "",
            ("float16",),
        )
    },
    needed={
        "plug_without_dropout": Mutation(
            "the attention that is plugged in is called without dropout", left_out("dropout_p")
        ),
        "plug_without_causal": Mutation(
            "the attention that is plugged in is called without the causal rule", left_out("is_causal")
        ),
        "plug_without_mask": Mutation(
            "the attention that is plugged in is called without the mask", left_out("attn_mask")
        ),
        "plug_given_every_argument": Mutation(
            "the attention that is plugged in is given arguments that the call does not need", lambda given: given
        ),
    },
    ask={**asking_plugs.MUTATIONS, **asking_plugs.MASKED},
)
