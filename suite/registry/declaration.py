"""The declaration of an implementation, the decorator that makes it, and the results of loading it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar, overload

from attnsuite.contracts import names as contract_names
from attnsuite.model import Status, escaped
from attnsuite.registry.signatures import names as signatures

Function = TypeVar("Function", bound=Callable[..., Any])


OWN = ("attnsuite.implementations.", "attnsuite.benchmark.stopwatch.")
"""How modules begin whose implementations come with attnsuite: those that are listed, and the stopwatch's copies."""


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
    """The path of the source, for people and for `source_hash`; empty if there is none."""
    parameters: tuple[str, ...] | None = None
    """The parameters that can be given by keyword; None if it takes any, or if they are known only after loading it."""
    requires: tuple[str, ...] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)
    conventions: Mapping[str, Any] = field(default_factory=dict)
    compiles: str = ""
    """What it compiles for new shapes or features, which takes seconds each time; empty where it compiles nothing."""
    summary: str = ""
    broken: str = ""
    """Why the declaration cannot be read, or empty. Loading it gives `Broken` with this reason."""
    named: bool = False
    """Whether the user named this function. If it does not exist, that is then the user's mistake."""
    guessed: bool = False
    """Whether its file binds nothing under the contract's name, and this is its only public function or class."""
    backend: Declaration | None = None
    """The attention that is plugged into it, if any."""
    signature: str = ""
    """The signature of the field that it has; empty for the contract's own, and where that is not known yet."""
    signature_by: tuple[str, ...] = ()
    """The parameters that tell it, or the one word that says it: `--signature`, `@implementation`."""
    untested: tuple[str, ...] = ()
    """Its parameters that no test gives, once it is loaded."""
    rewrites_calls: bool = False
    """Whether it is not called as a test says: what a test leaves out is given, or what it names is given by place."""
    contract_assumed: bool = False
    """Whether neither its user nor its author calls it an attention: it is tested as one by default."""
    assumption: str = ""
    """What was assumed of an contract_assumed function whose parameters do not tell, once it is loaded; or empty."""
    conversion: str = ""
    """What was made of a class or module so that it can be called; empty for a function, and before it is loaded."""

    def __post_init__(self) -> None:
        """A file may be called anything, and its name stands in every table: what a reader cannot see is escaped."""
        object.__setattr__(self, "name", escaped(self.name))

    @property
    def full_name(self) -> str:
        """`attention/torch_sdpa.flash`: the name in every table."""
        return f"{self.contract}/{self.name}"

    @property
    def own(self) -> bool:
        """Whether it is a file or a function that the user named: the user can mend it at once."""
        return self.named or not self.module

    @property
    def shipped(self) -> bool:
        """Whether an implementation and its plug come with attnsuite: those may answer in the suite's own process, and
        what they take tells how busy the machine is.
        """
        return all(part.module.startswith(OWN) for part in filter(None, (self, self.backend)))


@dataclass(frozen=True)
class Loaded:
    """An implementation that can be called. `printed` is what it wrote while it was imported."""

    declaration: Declaration
    function: Callable[..., Any]
    printed: str = ""


@dataclass(frozen=True)
class Missing:
    """An implementation whose declared library is not installed."""

    declaration: Declaration
    reason: str
    status: ClassVar[Status] = Status.MISSING

    def __str__(self) -> str:
        return self.reason


@dataclass(frozen=True)
class Broken:
    """An implementation that cannot be declared or imported."""

    declaration: Declaration
    reason: str
    printed: str = ""
    status: ClassVar[Status] = Status.ERROR

    def __str__(self) -> str:
        return self.reason


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
) -> Callable[[Function], Function]: ...
def implementation(
    function: Callable[..., Any] | None = None,
    /,
    *,
    variant: str | None = None,
    requires: Sequence[str] = (),
    lacks: Mapping[str, str] | None = None,
    conventions: Mapping[str, Any] | None = None,
    signature: str | None = None,
    contract: str | None = None,
    compiles: str = "",
) -> Any:
    """Declare a function as an implementation. Its folder is its contract, its file its name.

    The arguments have to be literals, because they are read without importing the file, too.

    - `variant` names one of several functions in a file: `flash` in `torch_sdpa.py` is `torch_sdpa.flash`.
    - `requires` lists the libraries without which it is missing, and not broken.
    - `lacks` gives a reason for each feature that it does not have.
    - `conventions` says where it differs from the contract on purpose: `{"causal": "lower_right"}`.
    - `signature` names the library whose signature it has, `flash_attn` say, where its parameters do not tell.
    - `contract` names what it computes, where the file is in no folder that says so.
    - `compiles` says what it compiles for new shapes or features, where that takes seconds each time: `attnsuite run`
      then tests it on a sample.
    """
    declared = checked(
        variant=variant,
        requires=requires,
        lacks=lacks,
        conventions=conventions,
        signature=signature,
        contract=contract,
        compiles=compiles,
    )

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__attnsuite__ = declared  # type: ignore[attr-defined]
        return function

    return declare if function is None else declare(function)


WORDS = (str, int, float, type(None))
"""What a convention's choice is made of."""


def _is_data(value: Any) -> bool:
    """Whether it is words, numbers, or lists and dicts of such: it is written to results, and compared."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_data(each) for key, each in value.items())
    return all(map(_is_data, value)) if isinstance(value, list | tuple) else isinstance(value, WORDS)


def checked(
    *,
    variant: Any = None,
    requires: Any = (),
    lacks: Any = None,
    conventions: Any = None,
    signature: Any = None,
    contract: Any = None,
    compiles: Any = "",
) -> dict[str, Any]:
    """The decorator's arguments in their final form. Raises TypeError for an argument of the wrong type."""
    if signature is not None and signature not in signatures():
        raise TypeError(f"signature is one of {', '.join(signatures())}, not {signature!r}")
    if contract is not None and contract not in contract_names():
        raise TypeError(f"contract is one of {', '.join(contract_names())}, not {contract!r}")
    if variant is not None and not (isinstance(variant, str) and variant):
        raise TypeError(f"variant is a name, not {variant!r}")
    if not isinstance(compiles, str):
        raise TypeError(f"compiles is a sentence, not {compiles!r}")
    if not isinstance(requires, list | tuple) or not all(isinstance(library, str) for library in requires):
        raise TypeError(f"requires is a list of the names of libraries, not {requires!r}")
    for argument, value in (("lacks", lacks), ("conventions", conventions)):
        if not isinstance(value or {}, Mapping) or not all(isinstance(key, str) for key in value or {}):
            raise TypeError(f"{argument} is a dict with names as keys, not {value!r}")
    if not all(isinstance(reason, str) and reason for reason in (lacks or {}).values()):
        raise TypeError("lacks gives a reason for each feature")
    if not _is_data(dict(conventions or {})):
        raise TypeError("conventions names a choice for each point, in words or as a dict of words by feature")
    return {
        "variant": variant,
        "contract": contract,
        "compiles": compiles,
        "requires": tuple(requires),
        "lacks": dict(lacks or {}),
        "conventions": dict(conventions or {}),
        "signature": signature or "",
        "signature_by": ("@implementation",) if signature else (),
    }
