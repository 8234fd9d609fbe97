"""A shape to be timed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from attnsuite.cases.call import Call, Conventions
from attnsuite.model import PASSES

if TYPE_CHECKING:
    from torch import Tensor

    from attnsuite.judging.verdicts import Verdict


class Workload(ABC):
    """A shape to be timed, as data. The name is `group/what`; a group is a table and a line in charts.

    Inputs depend on the name alone, so that every process makes the same; they change from round to round, so that no
    output can be replayed.
    """

    name: str
    why: str
    length: int
    """The size on the axis of charts."""
    profiles: Mapping[str, tuple[str, ...]]
    """The directions that each profile times."""
    cores: Mapping[str, tuple[int, ...]]
    """The numbers of threads by profile, where that is not one alone."""
    dtypes: Mapping[str, tuple[str, ...]]
    """The dtypes to time by kind of device."""
    directions: tuple[str, ...] = PASSES
    """The directions that can be timed at all."""
    is_model: bool = False
    """Whether a factory has to make the function first, of a config and weights."""

    @property
    def group(self) -> str:
        """The part of the name before the first slash."""
        return self.name.split("/")[0]

    @property
    @abstractmethod
    def shape(self) -> str:
        """The sizes in words, for tables."""

    @abstractmethod
    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        """The call of round 0, with gradients for every direction but forward; of a step those of trained weights.

        On the device `meta` its numbers and weights have no data; masks, lengths and tokens have, because the needed
        features are read from them.
        """

    def under(self, conventions: Conventions) -> Workload:
        """The same workload under declared conventions."""
        return self

    def loss(self, output: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """The loss of a training step, a number without axes: of an output and all inputs by name."""
        raise NotImplementedError(f"{self.name} is not trained")

    @abstractmethod
    def tensors_of_round(self, call: Call, number: int) -> Mapping[str, Tensor]:
        """The tensors that differ in round `number` from those of round 0; new ones, contiguous."""

    @abstractmethod
    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        """`attended` and `convention` in FLOPs, `bytes`, and `tokens` or `images` where it has any; all of one call."""

    @abstractmethod
    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        """The rows of `output` and of each gradient, flattened to two axes, that are compared with the oracle.

        Of a step: of the loss and of the gradients (attnsuite.cases.training).
        """

    def errors(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], actual: Mapping[str, Tensor]
    ) -> Mapping[str, float]:
        """The relative errors of these rows; empty where they have no such measure."""
        return {}

    @abstractmethod
    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], actual: Mapping[str, Tensor]
    ) -> Verdict:
        """Compare rows of round `number` with the oracle."""
