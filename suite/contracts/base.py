"""What a contract is: cases that ask calls, an oracle that knows the truth, deviations that name mistakes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar

from suite.records import DIRECTIONS, DTYPES, Example

if TYPE_CHECKING:
    from torch import Tensor

Conventions = Mapping[str, Any]

ALL = 0
"""As a number of threads: as many as there are cores."""


@dataclass(frozen=True)
class Call:
    """One call of a function, as data: tensors with their layout, options, and what is wanted of it.

    Tensors named in `positional` are passed by position in that order, all others and the options by keyword.
    """

    tensors: Mapping[str, Tensor]
    options: Mapping[str, float | bool | str | None] = field(default_factory=dict)
    positional: tuple[str, ...] = ("query", "key", "value")
    gradient_of: tuple[str, ...] = ()
    output_gradient: Tensor | None = None
    seed: int | None = None
    grad_mode: bool = True
    own_thread: bool = False
    same_storage: bool = False
    """Write these numbers into the tensors of the call before: other contents behind the same pointers."""
    same_tensor: tuple[str, ...] = ()
    """These inputs, of equal numbers, are one tensor that is given under several names."""
    config: Mapping[str, Any] | None = None
    """Where it is given, the function is a factory, `factory(config, weights)`, and what it returns is called."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    model_of: int | None = None
    """Call the model of an earlier call of the question, counted from 0; config and weights are not given again."""
    probed: bool = False
    """Give a probe as `attention`: it answers zeros, and raises where what it is given has not this call's dtype."""

    @property
    def arguments(self) -> frozenset[str]:
        """The parameters that a function needs to take this call."""
        plug = {"attention"} if self.probed else frozenset[str]()
        return frozenset(self.tensors) - frozenset(self.positional) | frozenset(self.options) | plug


NO_MODEL = "in place of a model"
"""How the kind of a reply ends where a factory made nothing that can be called."""


@dataclass(frozen=True)
class Reply:
    """What came back from one call. Tensors are on the CPU, snapshots taken before anything else ran."""

    output: Tensor | None = None
    kind: str = "Tensor"
    """The type of what was returned, in words, when it is no tensor."""
    device: str = "cpu"
    gradients: Mapping[str, Tensor | None] = field(default_factory=dict)
    raised: str = ""
    """`ValueError: what it said`, or empty."""
    declined: str = ""
    """The reason given with NotImplementedError, or empty."""
    changed: tuple[str, ...] = ()
    """Inputs whose bits differ after the call."""
    aliased: tuple[str, ...] = ()
    """Inputs whose storage the output shares."""
    overwritten: bool = False
    """A later call of the same question changed this output."""
    seconds: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """The judgement on the replies to one question."""

    status: str
    detail: str = ""
    error_ratio: float | None = None
    output_wrong: bool = False
    """Whether the complaint is about numbers, which a deviation may reproduce."""


class Case(ABC):
    """One question, as data: a name, why it exists, and only what is unusual about it.

    The name is `family/what`. Subclasses say how to ask (`calls`), what is true (`truth`, computed before any
    implementation sees the inputs) and how replies are judged (`verdict`).
    """

    name: str
    why: str
    dtypes: tuple[str, ...] = DTYPES
    in_worker: ClassVar[bool] = False
    """Asked in a process of its own, whatever the implementation: its calls may take the process down."""

    @property
    def family(self) -> str:
        return self.name.split("/")[0]

    @abstractmethod
    def calls(self, dtype: str) -> tuple[Call, ...]:
        """The calls to make, in order, in one process."""

    @abstractmethod
    def truth(self, calls: tuple[Call, ...], conventions: Conventions) -> Any:
        """What is true, computed from the calls alone."""

    @abstractmethod
    def verdict(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], truth: Any) -> Verdict:
        """Hold the replies against the truth."""

    def counts(self, truth: Any) -> bool:
        """Whether catching a deviation here counts: not where bounds had to be so loose that luck decides."""
        return True

    def alike(self, calls: tuple[Call, ...], replies: tuple[Reply, ...], theirs: tuple[Reply, ...], truth: Any) -> bool:
        """Whether two sets of replies are equal within the bounds, for diagnosis; False where that makes no sense."""
        return False


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
    directions: tuple[str, ...] = DIRECTIONS
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
        """The call of round 0, with gradients for every direction but forward.

        On the device `meta` its numbers and weights have no data. Masks, lengths and tokens have theirs there too:
        what the call needs of an implementation is read off them.
        """

    @abstractmethod
    def turned(self, call: Call, number: int) -> Mapping[str, Tensor]:
        """The tensors that are different in round `number`, from those of round 0; new ones, contiguous."""

    @abstractmethod
    def work(self, dtype: str, direction: str) -> Mapping[str, float]:
        """`attended` and `convention` in FLOPs, `bytes`, and `tokens` or `images` where it has any; all of one call."""

    @abstractmethod
    def rows(self, direction: str, random: Random) -> Mapping[str, Sequence[int]]:
        """Which rows of `output` and of each gradient, flattened to two axes, to hold against the oracle."""

    @abstractmethod
    def verdict(
        self, dtype: str, direction: str, number: int, rows: Mapping[str, Sequence[int]], found: Mapping[str, Tensor]
    ) -> Verdict:
        """Hold the rows that were found in round `number` against the oracle."""


@dataclass(frozen=True)
class Deviation:
    """An implementation with exactly one named mistake."""

    name: str
    says: str
    """The mistake in words, as a diagnosis quotes it: "the scores are not divided by √e"."""
    function: Callable[..., Any]
    dtypes: tuple[str, ...] = ("float32",)
    """Where the audit asks it; more than one only for a mistake that depends on the dtype."""
    source: str = ""
    """Where it happened: a project's issue, an erratum, a paper."""


@dataclass(frozen=True)
class Stranger:
    """A correct implementation in a foreign style."""

    name: str
    says: str
    """The style in words."""
    function: Callable[..., Any]
    requires: tuple[str, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Conventions = field(default_factory=dict)


@dataclass(frozen=True)
class Contract:
    """A kind of implementation: its words, its cases and its deviations. Lists are made when asked for."""

    name: str
    features: Mapping[str, str]
    """What a case may need, and each in words."""
    parameter_features: Mapping[str, tuple[str, ...]]
    """The features that a function declines by not taking a parameter."""
    cases: Callable[[], Sequence[Case]]
    deviations: Callable[[], Sequence[Deviation]]
    controls: Callable[[], Mapping[str, Callable[..., Any]]]
    """The deviations' own computations without any mistake, by name: they must pass everything."""
    needs: Callable[[tuple[Call, ...]], frozenset[str]]
    """The features that these calls need, read off the calls themselves."""
    core: str = "plain"
    """The family whose cases that need no feature nobody may decline."""
    core_dtypes: Mapping[str, str] = field(default_factory=lambda: {"cpu": "float32", "cuda": "float32"})
    """The dtype of the core by kind of device."""
    core_needs: frozenset[str] = frozenset()
    """Features that the core needs besides."""
    conventions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where libraries honestly differ, and what may be declared there; the first is the contract's own."""
    adapt: Callable[[Call, Conventions], Call] = lambda call, conventions: call
    """The same question in the words of a declared convention."""
    unanswerable: Callable[[Case, frozenset[str], Conventions], str] = lambda case, needed, conventions: ""
    """Why a question has no defined answer under these conventions, or empty."""
    findings: Path | None = None
    """The file of what shipping libraries really get wrong, where there is one."""
    strangers: Callable[[], Sequence[Stranger]] = tuple
    """Correct implementations in foreign styles, which must never be accused."""
    workloads: Callable[[], Sequence[Workload]] = tuple
    """What is timed."""
    examples: Callable[[], Sequence[Example]] = tuple
    """The documents' examples among the cases, printed beside what the oracle computes."""

    @property
    def signature(self) -> str:
        """How it is called, as its module says under the first line."""
        paragraphs = (import_module(f"suite.contracts.{self.name}.contract").__doc__ or "").split("\n\n")
        return " ".join(paragraphs[1].split()) if len(paragraphs) > 1 else ""


EVERYWHERE = {**{dtype: dtype for dtype in DTYPES}, "cpu": "the CPU", "cuda": "CUDA devices"}
"""The features of every contract."""

USUAL = {"cases": "cases.cases", "deviations": "deviations.deviations", "controls": "deviations.controls"}
"""Where the lists of a contract usually are: in which room, and what makes them."""


def rooms(package: str, **others: str) -> dict[str, Any]:
    """The lists of a contract, by its field. A room is imported when its list is asked for.

    `others` says what is elsewhere than usual, `cases="cases.cases"`. Examples are the cases that have one.
    """

    def asked(room: str, function: str) -> Callable[[], Any]:
        return lambda: getattr(import_module(f"{package}.{room}"), function)()

    found: dict[str, Any] = {name: asked(*path.rsplit(".", 1)) for name, path in (USUAL | others).items()}
    cases = found["cases"]
    return {"examples": lambda: [case.example() for case in cases() if hasattr(case, "example")]} | found


def needs_by(parameters: Mapping[str, tuple[str, ...]]) -> Callable[[tuple[Call, ...]], frozenset[str]]:
    """What calls need where every argument needs all of its parameter's features: these, and the dtypes of numbers."""

    def needs(calls: tuple[Call, ...]) -> frozenset[str]:
        arguments = frozenset[str]().union(*(call.arguments for call in calls))
        tensors = [tensor for call in calls for tensor in (*call.tensors.values(), *call.weights.values())]
        dtypes = {str(tensor.dtype)[6:] for tensor in tensors if tensor.dtype.is_floating_point}
        return frozenset(dtypes).union(*(parameters.get(name, ()) for name in arguments))

    return needs
