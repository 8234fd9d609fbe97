"""Bad input that is accepted, and good input that is misread."""

from __future__ import annotations

import torch
from torch import Tensor

from attnsuite.cases.mutants import Mutation, as_it_lies, as_they_lie, mutants, with_arguments
from attnsuite.contracts.models.common import EXTRA_WEIGHTS, MIXED_DTYPES, of_due_shapes
from attnsuite.contracts.models.seq2seq_attention.mutants.staged import Config, Recurrent


def clamped(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    source = source.clamp(0, config["source_vocab"] - 1)
    target = target.clamp(0, config["target_vocab"] - 1)
    return Recurrent.check_inputs(config, source, lengths.clamp(1, source.shape[1]), target)


MUTANTS = mutants(
    Recurrent,
    check_weights={
        "accepts_extra_weights": EXTRA_WEIGHTS,
        "accepts_any_shapes": Mutation(
            "the weights' names are looked at, but not their shapes: one number serves all",
            with_arguments(weights=of_due_shapes),
        ),
        "accepts_mixed_dtypes": MIXED_DTYPES,
    },
    check_inputs={
        "clamps_inputs": Mutation("tokens and lengths that fit nowhere are clamped", clamped),
        "counts_tokens_from_the_end": Mutation(
            "tokens below zero are counted from the vocabulary's end",
            with_arguments(
                target=lambda target, config: torch.where(target < 0, target + config["target_vocab"], target)
            ),
        ),
        "broadcasts_source": Mutation(
            "one source serves all targets",
            with_arguments(
                source=lambda source, target: source.expand(len(target), -1) if len(source) == 1 else source
            ),
        ),
        "broadcasts_lengths": Mutation(
            "one length serves all sources",
            with_arguments(
                lengths=lambda lengths, source: lengths.expand(len(source)) if len(lengths) == 1 else lengths
            ),
        ),
        "accepts_int32_lengths": Mutation(
            "lengths of all integer dtypes are accepted",
            with_arguments(lengths=lambda lengths: lengths if lengths.is_floating_point() else lengths.long()),
        ),
        "inputs_as_they_lie": Mutation(
            "tokens and lengths are read in the order in which they lie in memory",
            with_arguments(source=as_it_lies, lengths=as_it_lies, target=as_it_lies),
        ),
    },
    take={
        "weights_as_they_lie": Mutation(
            "weights are read in the order in which they lie in memory, whatever the strides", as_they_lie
        )
    },
)
