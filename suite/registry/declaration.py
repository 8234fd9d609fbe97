"""The declaration of an implementation, the decorator that makes it, and the results of loading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar, overload

from msgspec import Meta, Struct, convert
from msgspec.structs import asdict

from attnsuite.contracts import names as contract_names
from attnsuite.model import Status, escaped
from attnsuite.registry.signatures import names as signatures

Function = TypeVar("Function", bound=Callable[..., Any])

OWN = ("attnsuite.implementations.", "attnsuite.benchmark.stopwatch.")
"""The modules that ship with attnsuite begin like this: registered implementations, and copies for timer audits."""


class Uncallable(Exception):
    """A target that cannot be called as a function, in one line that says what to write instead."""


@dataclass(frozen=True)
class Declaration:
    """One implementation as its source declares it, known without importing it.

    It is imported as `module`, or by its path if `module` is empty. `function` is its name in the module, with dots for
    an attribute of a class; empty before the import of a file that decorates nothing.
    """

    contract: str
    name: str
    function: str
    module: str = ""
    file: str = ""
    """The path of the source; empty without a file."""
    parameters: tuple[str, ...] | None = None
    """The parameters that can be given by keyword; None if it takes any, or if only the import shows them."""
    requires: tuple[str, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Mapping[str, Any] = field(default_factory=dict)
    compiles: str = ""
    """What it compiles for new shapes or features, which takes seconds each time; empty where it compiles nothing."""
    summary: str = ""
    broken: str = ""
    """Why the declaration cannot be read, or empty. Loading it gives `Broken` with this reason."""
    named: bool = False
    """Whether the user named this function. If it does not exist, that is a user error."""
    guessed: bool = False
    """Whether its file binds nothing under the contract's name, and this is its only public function or class."""
    backend: Declaration | None = None
    """The attention that it uses as a backend, if it is combined with one."""
    signature: str = ""
    """The name of its signature; empty for the contract's own, and before it is known."""
    signature_by: tuple[str, ...] = ()
    """The parameters that identify the signature, or the word that names it: `--signature`, `@implementation`."""
    untested: tuple[str, ...] = ()
    """Its parameters that no test gives, once it is loaded."""
    rewrites_calls: bool = False
    """Whether calls of tests are changed for it: defaults are filled in, or keywords are given by position."""
    conversion: str = ""
    """How a class or module was made callable; empty for a function, and before it is loaded."""
    arguments: str = ""
    """The arguments of its class, as the user writes them after it: `(128, 4)`; or empty."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """The layers of a module by role, where the user or its author names them."""
    owns_weights: bool = False
    """Whether it is a module whose weights tests set, once it is loaded."""

    def __post_init__(self) -> None:
        # a file may have any name, and the name is printed in every table
        object.__setattr__(self, "name", escaped(self.name))

    @property
    def full_name(self) -> str:
        """`attention/torch_sdpa.flash`: the name in every table."""
        return f"{self.contract}/{self.name}"

    @property
    def own(self) -> bool:
        """Whether it is a file or a function that the user named, and so can repair at once."""
        return self.named or not self.module

    @property
    def shipped(self) -> bool:
        """Whether an implementation and its backend ship with attnsuite. Those may run in the suite's own process."""
        return all(part.module.startswith(OWN) for part in filter(None, (self, self.backend)))


@dataclass(frozen=True)
class Loaded:
    """An implementation that can be called."""

    declaration: Declaration
    function: Callable[..., Any]


@dataclass(frozen=True)
class _Unloaded:
    declaration: Declaration
    reason: str

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Missing(_Unloaded):
    """An implementation whose declared library is not installed."""

    status: ClassVar[Status] = Status.MISSING


@dataclass(frozen=True)
class Broken(_Unloaded):
    """An implementation that cannot be declared or imported."""

    printed: str = ""
    status: ClassVar[Status] = Status.ERROR


@overload
def implementation(function: Function, /) -> Function: ...
@overload
def implementation(
    *,
    variant: str | None = None,
    requires: Sequence[str] = (),
    lacks: Mapping[str, str] | None = None,
    conventions: Mapping[str, Any] | None = None,
    signature: str | None = None,
    contract: str | None = None,
    compiles: str = "",
    weights: Mapping[str, str] | None = None,
) -> Callable[[Function], Function]: ...
def implementation(function: Callable[..., Any] | None = None, /, **arguments: Any) -> Any:
    """Declare a function as an implementation. Its folder is its contract, its file its name.

    All arguments have to be literals, because they are also read without importing the file.

    - `variant` names one of several functions in a file: `flash` in `torch_sdpa.py` is `torch_sdpa.flash`.
    - `requires` lists libraries; without one of them it is missing, and not broken.
    - `lacks` gives a reason for each feature that it does not support.
    - `conventions` says where it differs from the contract on purpose: `{"causal": "lower_right"}`.
    - `signature` names the library whose signature it has, `flash_attn` say, where its parameters do not show it.
    - `contract` names its contract, where the file is in no folder of that name.
    - `compiles` says what it compiles for new shapes or features, where that takes seconds each time: `attnsuite run`
      then tests it on a sample.
    - `weights` names the layers of a module by role, where their names do not: `{"q": "first", "k": "second"}`.

    >>> @implementation(variant="plain", lacks={"dropout": "weights are never dropped"})
    ... def attention(query, key, value): ...
    >>> attention.__attnsuite__["variant"]
    'plain'
    """
    declared = implementation_arguments(**arguments)

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__attnsuite__ = declared  # type: ignore[attr-defined]
        return function

    return declare if function is None else declare(function)


def declared_by(target: Any) -> dict[str, Any]:
    """The arguments of `@implementation` on an object; empty without it, or where its attributes raise."""
    try:
        declared = getattr(target, "__attnsuite__", None)
    except Exception:  # whatever its __getattr__ raises
        return {}
    return declared if isinstance(declared, dict) else {}


Words = Annotated[str, Meta(min_length=1)]
Choice = str | float | bool | None


class _Arguments(Struct, forbid_unknown_fields=True):
    """The types of the decorator's arguments. Conventions are data: they are written to results, and compared."""

    variant: Words | None = None
    contract: str | None = None
    compiles: str = ""
    requires: tuple[str, ...] = ()
    lacks: dict[str, Words] = {}
    conventions: dict[str, Choice | dict[str, Choice]] = {}
    weights: dict[str, str] = {}
    signature: str = ""


def implementation_arguments(**arguments: Any) -> dict[str, Any]:
    """The decorator's arguments in their final form. Raises TypeError for an argument of the wrong type."""
    try:
        checked = convert({name: value for name, value in arguments.items() if value is not None}, _Arguments)
    except Exception as error:  # msgspec's, and whatever an object raises that is no data
        raise TypeError(f"@implementation: {error}") from None
    for argument, value, known in (
        ("signature", checked.signature, signatures()),
        ("contract", checked.contract, contract_names()),
    ):
        if value and value not in known:
            raise TypeError(f"{argument} is {value!r}; expected one of {', '.join(known)}")
    return {**asdict(checked), "signature_by": ("@implementation",) if checked.signature else ()}
