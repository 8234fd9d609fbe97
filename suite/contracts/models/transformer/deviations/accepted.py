"""Bad input that is accepted."""

from __future__ import annotations

from torch import Tensor

from suite.asking.mistakes import Wrong, given, mistakes, rows
from suite.contracts.models.eager import EXTRA_WEIGHTS, Config
from suite.contracts.models.transformer.deviations.staged import Transformer


def clamped(config: Config, source: Tensor, lengths: Tensor, target: Tensor | None) -> tuple[Tensor, Tensor | None]:
    source = source.clamp(0, config["source_vocab"] - 1)
    return source, None if target is None else target.clamp(0, config["target_vocab"] - 1)


def for_all_sources(target: Tensor | None, source: Tensor) -> Tensor | None:
    return target.expand(len(source), -1) if target is not None and len(target) == 1 else target


def from_the_end(target: Tensor | None, config: Config) -> Tensor | None:
    return None if target is None else target % config["target_vocab"]


MISTAKES = mistakes(
    Transformer,
    check_inputs=rows(
        accepts_inputs=Wrong("tokens, lengths and targets are not looked at: what fits nowhere is clamped", clamped),
        one_row_for_all=Wrong("a single target serves all sources", given(target=for_all_sources)),
        negative_tokens=Wrong(
            "negative tokens of a target count from the vocabulary's end", given(target=from_the_end)
        ),
    ),
    check_weights=rows(
        accepts_extra_weights=EXTRA_WEIGHTS,
        contiguous_weights=Wrong(
            "weights are flattened without a copy, which needs them to be contiguous",
            given(weights=lambda weights: {name: each.view(-1).view(each.shape) for name, each in weights.items()}),
        ),
    ),
)
