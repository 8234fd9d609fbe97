"""Mistakes in the weights that are shown beside the output."""

from __future__ import annotations

from torch import Tensor

from attnsuite.cases.mutants import Wrong, mutants, rows, then
from attnsuite.contracts import shown
from attnsuite.contracts.blocks.multi_head_attention.deviations.staged import MultiHead


class Stale:
    """Keeps the weights of a shape from one call to the next."""

    def __init__(self) -> None:
        self.kept: dict[tuple[object, ...], Tensor] = {}

    def first(self, weights: Tensor) -> Tensor:
        return self._place(weights).clone()

    def in_one_place(self, weights: Tensor) -> Tensor:
        return self._place(weights).copy_(weights)

    def _place(self, weights: Tensor) -> Tensor:
        return self.kept.setdefault((weights.shape, weights.dtype), weights.clone())


MISTAKES = mutants(
    MultiHead,
    before_dropout=rows(
        shows_dropped_weights=Wrong(
            "the attention weights that are shown are those after dropout",
            lambda weights, dropped: dropped,
            "torch.nn.MultiheadAttention in training",
        )
    ),
    shown={**shown.SHOWN["shown"], **shown.OF_HIDDEN["shown"]},
    recalled=rows(
        shows_first_call=Wrong(
            "the attention weights of the first call of a shape are shown in later ones", then(Stale().first)
        ),
        shows_in_one_place=Wrong(
            "attention weights of one shape are written over each other: earlier ones change with the next call",
            then(Stale().in_one_place),
        ),
        shows_a_dictionary=Wrong("attention weights come in a dictionary", lambda shown: {"weights": shown}),
    ),
    read=shown.SHOWN["read"],
    of_plug=rows(
        shows_own_weights_of_plug=Wrong(
            "beside the answer of a plug the weights are shown that there are without it", lambda shown, own: own()
        )
    ),
    given_to_read=rows(
        reads_plug_unmasked=Wrong("the weights of a plug are read off it without any mask", lambda given: {}),
        reads_plug_dropped=Wrong("the weights of a plug are read off it with dropout", lambda given: given),
    ),
)
