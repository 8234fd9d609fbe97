"""Bad input that is accepted."""

from __future__ import annotations

from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, unless_none, with_arguments
from attnsuite.contracts.models.common import EXTRA_WEIGHTS
from attnsuite.contracts.models.eager import Config
from attnsuite.contracts.models.transformer.mutants.staged import Transformer


def clamped(config: Config, source: Tensor, lengths: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor | None]:
    source = source.clamp(0, config["source_vocab"] - 1)
    return source, None if target is None else target.clamp(0, config["target_vocab"] - 1)


MUTANTS = mutants(
    Transformer,
    check_inputs={
        "accepts_inputs": Mutation(
            "tokens, lengths and targets are not looked at: what fits nowhere is clamped", clamped
        ),
        "accepts_int32_lengths": Mutation(
            "lengths of all integer dtypes are accepted",
            with_arguments(lengths=lambda lengths: lengths if lengths.is_floating_point() else lengths.long()),
        ),
        "one_row_for_all": Mutation(
            "a single target serves all sources",
            with_arguments(
                target=unless_none(
                    lambda target, source: target.expand(len(source), -1) if len(target) == 1 else target
                )
            ),
        ),
        "negative_tokens": Mutation(
            "negative tokens of a target count from the vocabulary's end",
            with_arguments(target=unless_none(lambda target, config: target % config["target_vocab"])),
        ),
    },
    check_weights={
        "accepts_extra_weights": EXTRA_WEIGHTS,
        "contiguous_weights": Mutation(
            "weights are flattened without a copy, which needs them to be contiguous",
            with_arguments(
                weights=lambda weights: {name: each.view(-1).view(each.shape) for name, each in weights.items()}
            ),
        ),
    },
)
