"""Mistakes in the weights that are shown beside the output."""

from __future__ import annotations

from torch import Tensor

from attnsuite.cases.mutants import Mutation, mutants, with_result
from attnsuite.contracts import shown
from attnsuite.contracts.blocks.multi_head_attention.mutants.staged import MultiHead


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


MUTANTS = mutants(
    MultiHead,
    before_dropout={
        "shows_dropped_weights": Mutation(
            "the attention weights that are shown are those after dropout",
            lambda weights, dropped: dropped,
            "torch.nn.MultiheadAttention in training",
        )
    },
    shown={**shown.SHOWN["shown"], **shown.OF_HIDDEN["shown"]},
    recalled={
        "shows_first_call": Mutation(
            "the attention weights of the first call of a shape are shown in later ones", with_result(Stale().first)
        ),
        "shows_in_one_place": Mutation(
            "attention weights of one shape are written over each other: earlier ones change with the next call",
            with_result(Stale().in_one_place),
        ),
        "shows_a_dictionary": Mutation("attention weights come in a dictionary", lambda shown: {"weights": shown}),
    },
    read=shown.SHOWN["read"],
    of_plug={
        "shows_own_weights_of_plug": Mutation(
            "beside the answer of a plug the weights are shown that there are without it", lambda shown, own: own()
        )
    },
    given_to_read={
        "reads_plug_unmasked": Mutation("the weights of a plug are read off it without any mask", lambda given: {}),
        "reads_plug_dropped": Mutation("the weights of a plug are read off it with dropout", lambda given: given),
    },
)
