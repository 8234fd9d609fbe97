"""Bad input that is accepted, and good input that is misread."""

from __future__ import annotations

import torch
from torch import Tensor

from suite.asking.staged import instead_of
from suite.contracts.models.eager import Part
from suite.contracts.models.seq2seq_attention.contract import shapes
from suite.contracts.models.seq2seq_attention.deviations.staged import Config, Recurrent

Inputs = tuple[Tensor, Tensor, Tensor]


@instead_of(Recurrent.check_weights, "weights that are not due are accepted")
def accepts_extra_weights(config: Config, weights: Part) -> None:
    due = shapes(config)
    Recurrent.check_weights(config, {name: tensor for name, tensor in weights.items() if name in due})


@instead_of(Recurrent.check_weights, "the weights' names are looked at, but not their shapes: one number serves all")
def accepts_any_shapes(config: Config, weights: Part) -> None:
    due = shapes(config)
    Recurrent.check_weights(config, {name: tensor.new_zeros(due.get(name, ())) for name, tensor in weights.items()})


@instead_of(Recurrent.check_weights, "weights of several floating dtypes are accepted")
def accepts_mixed_dtypes(config: Config, weights: Part) -> None:
    same = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    Recurrent.check_weights(config, same)


@instead_of(Recurrent.check_inputs, "tokens and lengths that fit nowhere are clamped")
def clamps_inputs(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> Inputs:
    source = source.clamp(0, config["source_vocab"] - 1)
    target = target.clamp(0, config["target_vocab"] - 1)
    return Recurrent.check_inputs(config, source, lengths.clamp(1, source.shape[1]), target)


@instead_of(Recurrent.check_inputs, "tokens below zero are counted from the vocabulary's end")
def counts_tokens_from_the_end(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> Inputs:
    target = torch.where(target < 0, target + config["target_vocab"], target)
    return Recurrent.check_inputs(config, source, lengths, target)


@instead_of(Recurrent.check_inputs, "one source serves all targets")
def broadcasts_source(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> Inputs:
    source = source.expand(len(target), -1) if len(source) == 1 else source
    return Recurrent.check_inputs(config, source, lengths, target)


@instead_of(Recurrent.check_inputs, "one length serves all sources")
def broadcasts_lengths(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> Inputs:
    lengths = lengths.expand(len(source)) if len(lengths) == 1 else lengths
    return Recurrent.check_inputs(config, source, lengths, target)


@instead_of(Recurrent.check_inputs, "lengths of all integer dtypes are accepted")
def accepts_int32_lengths(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> Inputs:
    return Recurrent.check_inputs(config, source, lengths if lengths.is_floating_point() else lengths.long(), target)


@instead_of(Recurrent.take, "weights are read in the order in which they lie in memory, whatever the strides")
def weights_as_they_lie(weights: Part) -> Part:
    return {name: _as_it_lies(tensor) for name, tensor in weights.items()}


@instead_of(Recurrent.check_inputs, "tokens and lengths are read in the order in which they lie in memory")
def inputs_as_they_lie(config: Config, source: Tensor, lengths: Tensor, target: Tensor) -> Inputs:
    return Recurrent.check_inputs(config, _as_it_lies(source), _as_it_lies(lengths), _as_it_lies(target))


def _as_it_lies(tensor: Tensor) -> Tensor:
    return tensor.as_strided(tensor.shape, torch.empty(tensor.shape, device="meta").stride())
