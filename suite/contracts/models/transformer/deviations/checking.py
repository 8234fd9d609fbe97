"""What is accepted."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.models import eager
from suite.contracts.models.eager import Part
from suite.contracts.models.transformer.deviations.staged import Config, Transformer


@instead_of(Transformer.check_inputs, "tokens, lengths and targets are not looked at: what fits nowhere is clamped")
def accepts_inputs(
    config: Config, source: Tensor, lengths: Tensor, target: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    source = source.clamp(0, config["source_vocab"] - 1)
    return source, None if target is None else target.clamp(0, config["target_vocab"] - 1)


@instead_of(Transformer.check_inputs, "a single target serves all sources")
def one_row_for_all(
    config: Config, source: Tensor, lengths: Tensor, target: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    target = target if target is None or len(target) != 1 else target.expand(len(source), -1)
    return Transformer.check_inputs(config, source, lengths, target)


@instead_of(Transformer.check_inputs, "negative tokens of a target count from the vocabulary's end")
def negative_tokens(
    config: Config, source: Tensor, lengths: Tensor, target: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    return Transformer.check_inputs(
        config, source, lengths, None if target is None else target % config["target_vocab"]
    )


@instead_of(Transformer.check_weights, "weights that are not due are accepted")
def accepts_extra_weights(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
    eager.check({name: tensor for name, tensor in weights.items() if name in due}, due)


@instead_of(Transformer.check_weights, "weights are flattened without a copy, which needs them to be contiguous")
def contiguous_weights(weights: Part, due: Mapping[str, tuple[int, ...]]) -> None:
    eager.check({name: tensor.view(-1).view(tensor.shape) for name, tensor in weights.items()}, due)
