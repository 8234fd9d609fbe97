"""What is said of an implementation that fails: where it does, and the smallest input that shows it."""

from __future__ import annotations

from dataclasses import dataclass

from attnsuite.model.rows import Operators, Outcome


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
class BorrowedFinding:
    """A finding that records some failures of an implementation that ships, and how many of a submission's it is."""

    id: str
    says: str
    upstream: str
    failures: int

    @property
    def words(self) -> str:
        return f"{self.says} ({self.upstream})" if self.upstream else self.says


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Failures of a submission that are those of an implementation that ships, to which it seems to forward."""

    implementation: str
    versions: str
    """Of the library behind it: `torch 2.13.0`."""
    findings: tuple[BorrowedFinding, ...]
    questions: frozenset[tuple[str, str]]
    """The cases and dtypes of these failures."""
    failures: int
    """All failures of the submission."""
    plain_alike: int
    plain_asked: int
    home: str
    """The file of the findings."""

    def is_about(self, outcome: Outcome) -> bool:
        """Whether an outcome is one of these failures."""
        return (outcome.case, outcome.dtype) in self.questions

    @property
    def lines(self) -> list[str]:
        """One paragraph for people, with the lines of a file of known gaps that accept these failures."""
        ours, plain = f"{len(self.questions)} of its {self.failures}", f"{self.plain_alike} of {self.plain_asked}"
        return [
            f"{ours} failures are those of {self.implementation} ({self.versions}), bit for bit, and so are {plain} "
            "answers to plain questions: it forwards to it, or computes the very same. These are recorded findings:",
            *(f"  {each.failures} × {each.id}: {each.words}" for each in self.findings),
            f"{self.home} has each with a reproduction that needs nothing of this suite.",
            "They fail this check all the same. In a file for --known-gaps these lines accept them while they last:",
            *(f"  finding/{each.id}: as in {self.implementation}" for each in self.findings),
        ]

    @property
    def of_one(self) -> str:
        """The same of a single failure, in a line."""
        (finding,) = self.findings
        library = f"{self.implementation} ({self.versions}), to which it seems to forward"
        return f"the same as {library}, bit for bit: the recorded finding {finding.id}: {finding.words}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one implementation. Where nothing fails, it says no more than what was made of it."""

    adapted: tuple[str, ...] = ()
    """What was made of a class, a module or a pair of answers so that it could be asked; nothing for a function."""
    where: tuple[str, ...] = ()
    """`failed only where is_causal and a width above 64 meet, backward`: of what no known mistake explains."""
    reproductions: tuple[Reproduction, ...] = ()
    borrowed: Borrowed | None = None
    """The failures that are a library's; `where` and `reproductions` are about the others."""
    walls: str = ""
    """What kept it from what is not its own, and what nothing did; empty for what is trusted."""
    operators: Operators | None = None
    """What ran in some of its questions; None for what is trusted."""
    uncompared: str = ""
    """How many failures were not compared with every known mistake, and how one is; empty where all were."""
    hint: str = ""
    """The signature in which it answers, or how it is called, where it answers no plain question."""
    unasked: tuple[str, ...] = ()
    """The parameters that no test gave."""

    @property
    def _never_given(self) -> str:
        meaning = "its meaning was" if len(self.unasked) == 1 else "their meaning was"
        return f"never given: {', '.join(self.unasked)} ({meaning} not tested)" if self.unasked else ""

    @property
    def lines(self) -> list[str]:
        """For people: sentences, then what can be pasted."""
        borrowed = self.borrowed.lines if self.borrowed else ()
        return [
            *self.adapted,
            *filter(None, [self.hint, self.walls, self.operators.line if self.operators else ""]),
            *borrowed,
            *self.where,
            *filter(None, [self.uncompared, self._never_given]),
            *(line for each in self.reproductions for line in each.pasted),
        ]
