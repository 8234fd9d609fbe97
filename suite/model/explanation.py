"""What is said of an implementation that fails: where it does, and the smallest input that shows it."""

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
    """Whether it may not be the smallest: the time for looking was used up."""

    @property
    def pasted(self) -> tuple[str, ...]:
        """The lines below an empty one and a comment that says what they are."""
        return "", self._heading, *self.lines

    @property
    def _heading(self) -> str:
        smallest = "a smaller input (there was no time for the smallest)" if self.gave_up else "the smallest input"
        return f"# {smallest} that fails as {self.case} does in {self.dtype}:"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one implementation. Where nothing fails, it says no more than what was made of it."""

    conversions: tuple[str, ...] = ()
    """What was made of a class, a module or a pair of answers so that it could be asked; nothing for a function."""
    where: tuple[str, ...] = ()
    """`failed only where is_causal and a width above 64 meet, backward`: of what no known mistake explains."""
    reproductions: tuple[Reproduction, ...] = ()
    sandbox: str = ""
    """What kept it from what is not its own, and what nothing did; empty for what is trusted."""
    operators: Operators | None = None
    """What ran in some of its questions; None for what is trusted."""
    uncompared: str = ""
    """How many failures were not compared with every known mistake, and how one is; empty where all were."""
    hint: str = ""
    """The signature in which it answers, or how it is called, where it answers no plain question."""
    untested: tuple[str, ...] = ()
    """The parameters that no test gave."""

    @property
    def _never_given(self) -> str:
        meaning = "its meaning was" if len(self.untested) == 1 else "their meaning was"
        return f"never given: {', '.join(self.untested)} ({meaning} not tested)" if self.untested else ""

    @property
    def lines(self) -> list[str]:
        """For people: sentences, then what can be pasted."""
        return [
            *self.conversions,
            *filter(None, [self.hint, self.sandbox, self.operators.line if self.operators else ""]),
            *self.where,
            *filter(None, [self.uncompared, self._never_given]),
            *(line for each in self.reproductions for line in each.pasted),
        ]
