"""The explanation of failures: what failing tests share, and the smallest inputs that fail."""

from __future__ import annotations

from dataclasses import dataclass

from attnsuite.model.rows import Operators


@dataclass(frozen=True, slots=True)
class Reproduction:
    """A failing call, as lines of Python that print the actual and the expected output."""

    case: str
    dtype: str
    lines: tuple[str, ...]
    gave_up: bool = False
    """Whether the search ran out of time, so that a smaller input may exist."""

    @property
    def pasted(self) -> tuple[str, ...]:
        """The lines, after an empty line and a comment with the case."""
        return "", self._heading, *self.lines

    @property
    def _heading(self) -> str:
        smallest = "a smaller input (there was no time for the smallest)" if self.gave_up else "the smallest input"
        return f"# {smallest} that fails as {self.case} does in {self.dtype}:"


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one implementation. Where nothing fails, most fields are empty."""

    conversions: tuple[str, ...] = ()
    """How a class, a module or a pair (output, weights) was converted to be tested."""
    where: tuple[str, ...] = ()
    """`failed only where is_causal and a width above 64 meet, backward`: of failures that no mutant explains."""
    reproductions: tuple[Reproduction, ...] = ()
    sandbox: str = ""
    """What the sandbox protected and what it did not; empty for trusted code."""
    operators: Operators | None = None
    """The operators that ran in some of its tests; None for trusted code."""
    uncompared: str = ""
    """How many failures were not compared with every mutant, and how one is; empty where all were."""
    hint: str = ""
    """The signature or device that it needs, or how it is called, where it passes no plain test."""
    untested: tuple[str, ...] = ()
    """Its parameters that no test gives."""

    @property
    def _untested(self) -> str:
        plural = "s" * (len(self.untested) > 1)
        return f"not tested: the parameter{plural} {', '.join(self.untested)}" if self.untested else ""

    @property
    def lines(self) -> list[str]:
        """The explanation for people: sentences, then reproductions to paste."""
        return [
            *self.conversions,
            *filter(None, [self.hint, self.sandbox, self.operators.line if self.operators else ""]),
            *self.where,
            *filter(None, [self.uncompared, self._untested]),
            *(line for each in self.reproductions for line in each.pasted),
        ]
