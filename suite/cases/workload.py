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

    `length` is the size that charts have on their axis. `profiles` maps each profile that times it to the directions
    that it times, and `cores` to the numbers of threads, where that is not one alone. Inputs depend on the name alone,
    so that every process makes the same; from round to round they change, so that no answer can be replayed.
    """

    name: str
    why: str
    length: int
    profiles: Mapping[str, tuple[str, ...]]
    cores: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, tuple[str, ...]]
    """The dtypes to time by kind of device."""
    directions: tuple[str, ...] = PASSES
    """The directions that can be timed at all."""
    is_model: bool = False
    """Whether what is called has to be made first, of a config and weights."""

    @property
    def group(self) -> str:
        return self.name.split("/")[0]

    @property
    @abstractmethod
    def shape(self) -> str:
        """The sizes in words, for tables."""

    @abstractmethod
    def call(self, dtype: str, direction: str = "forward", *, device: str = "cpu") -> Call:
        """The call of round 0, with gradients for every direction but forward; of a step those of what it changes.

        On the device `meta` its numbers and weights have no data. Masks, lengths and tokens have theirs there too:
        what the call needs of an implementation is read off them.
        """

    def under(self, conventions: Conventions) -> Workload:
        """The same workload as it is asked of whoever declares these conventions; itself where they change nothing."""
        return self

    def loss(self, output: Tensor, inputs: Mapping[str, Tensor]) -> Tensor:
        """What a training step makes smaller, a number without axes: of an answer and all inputs by name."""
        raise NotImplementedError(f"{self.name} is not trained")

    @abstractmethod
    def turned(self, call: Call, number: int) -> Mapping[str, Tensor]:
        """The tensors that are different in round `number`, from those of round 0; new ones, contiguous."""

    @abstractmethod
    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        """`attended` and `convention` in FLOPs, `bytes`, and `tokens` or `images` where it has any; all of one call."""

    @abstractmethod
    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        """Which rows of `output` and of each gradient, flattened to two axes, to hold against the oracle.

        Of a step: of the loss and of the gradients (attnsuite.cases.training).
        """

    def errors(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Mapping[str, float]:
        """The errors of the rows that were found, relative to the truth; nothing where that is no measure of them."""
        return {}

    @abstractmethod
    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Verdict:
        """Hold the rows that were found in round `number` against the oracle."""
